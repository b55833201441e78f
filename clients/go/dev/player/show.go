package main

import (
	"time"

	pausewatch "pausewatch.dev/clients/go"
)

// Durations are in milliseconds with fractions.

func ms(milliseconds float64) time.Duration {
	return time.Duration(milliseconds * float64(time.Millisecond))
}

func inMs(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func showState(state pausewatch.PauseState) fields {
	elicitations := []fields{}
	for _, elicitation := range state.Elicitations {
		elicitations = append(elicitations, showElicitation(elicitation))
	}
	shown := fields{
		"thread_id":       state.ThreadID,
		"count":           state.Count,
		"paused":          state.Paused,
		"revision":        state.Revision,
		"paused_total_ms": inMs(state.PausedTotal),
		"elicitations":    elicitations,
	}
	if state.Paused {
		shown["paused_for_ms"] = inMs(state.PausedFor)
	}
	return shown
}

func showElicitation(elicitation pausewatch.Elicitation) fields {
	shown := fields{
		"elicitation_id": elicitation.ID,
		"thread_id":      elicitation.ThreadID,
		"reason":         elicitation.Reason,
		"holder":         elicitation.Holder,
	}
	if !elicitation.ExpireTime.IsZero() {
		shown["lease_ms"] = inMs(elicitation.ExpireTime.Sub(elicitation.CreateTime))
	}
	return shown
}

func showPause(pause pausewatch.Pause) fields {
	elicitations := []fields{}
	for _, closed := range pause.Elicitations {
		elicitations = append(elicitations, fields{
			"elicitation_id": closed.ID,
			"reason":         closed.Reason,
			"holder":         closed.Holder,
			"ended_by":       closed.EndedBy,
		})
	}
	return fields{
		"thread_id":            pause.ThreadID,
		"duration_ms":          inMs(pause.Duration),
		"ended_by":             pause.EndedBy,
		"elicitations":         elicitations,
		"omitted_elicitations": pause.OmittedElicitations,
	}
}

func showEvent(event pausewatch.Event) fields {
	switch event := event.(type) {
	case pausewatch.StateEvent:
		return fields{"event": "state", "state": showState(event.State), "gap": event.Gap, "changed": event.Changed}
	case pausewatch.SnapshotComplete:
		return fields{"event": "snapshot_complete"}
	default:
		return fields{"event": "disconnected"}
	}
}

func showReading(reading pausewatch.Reading) fields {
	shown := fields{
		"wall_ms":      inMs(reading.Wall),
		"charged_ms":   inMs(reading.Elapsed),
		"remaining_ms": inMs(reading.Remaining),
		"paused":       reading.Paused,
		"expired":      reading.Expired,
		"linked":       reading.Linked,
	}
	if reading.Expired {
		shown["ended_by"] = reading.EndedBy.String()
	}
	return shown
}
