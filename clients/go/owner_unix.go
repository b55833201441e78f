//go:build unix

package pausewatch

import (
	"os"
	"path/filepath"
	"syscall"
)

// isOfAnotherUser says whether the directory belongs to another user. The first of these that can be seen decides: the
// directory, or one above it; some may be hidden or missing.
func isOfAnotherUser(directory string) bool {
	for {
		if info, err := os.Stat(directory); err == nil {
			status, known := info.Sys().(*syscall.Stat_t)
			return known && int64(status.Uid) != int64(os.Geteuid())
		}
		above := filepath.Dir(directory)
		if above == directory {
			return true
		}
		directory = above
	}
}
