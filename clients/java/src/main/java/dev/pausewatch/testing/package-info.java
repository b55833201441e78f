/** For the tests of programs that use this library. */
@NullMarked
package dev.pausewatch.testing;

import org.jspecify.annotations.NullMarked;
