package dev.pausewatch.soak;

import com.google.gson.annotations.SerializedName;

/** The results of a round, as the soak prints them. */
final class Counts {
    int holds;
    int cancelled;
    int unknown;
    int expired;
    int early;

    @SerializedName("false_expiries")
    int falseExpiries;

    int hangs;

    @SerializedName("late_ms")
    double lateMs;

    @SerializedName("bare_late_ms")
    double bareLateMs;

    @SerializedName("clock_error_ms")
    double clockErrorMs;

    @SerializedName("await_error_ms")
    double awaitErrorMs;

    int disconnects;

    synchronized void held() {
        holds++;
    }

    synchronized void cancel() {
        cancelled++;
    }

    synchronized void mayBeOpen() {
        unknown++;
    }

    synchronized void hang() {
        hangs++;
    }

    synchronized void expire(double ms) {
        expired++;
        early += ms < -5 ? 1 : 0;
        lateMs = Math.max(lateMs, ms);
    }

    synchronized void bare(double ms) {
        bareLateMs = Math.max(bareLateMs, ms);
    }

    synchronized void early() {
        early++;
    }

    synchronized void falseExpiry() {
        falseExpiries++;
    }

    synchronized void clock(double ms) {
        clockErrorMs = Math.max(clockErrorMs, ms);
    }

    synchronized void awaited(double ms) {
        awaitErrorMs = Math.max(awaitErrorMs, ms);
    }

    synchronized void disconnect() {
        disconnects++;
    }
}
