// Runs a program 20 times at once: PROGRAM [ARGUMENT]...
package main

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
)

func main() {
	var ran atomic.Int32
	var all sync.WaitGroup
	for i := 0; i < 20; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			program := exec.Command(os.Args[1], os.Args[2:]...)
			program.Stdout, program.Stderr = os.Stdout, os.Stderr
			if program.Run() == nil {
				ran.Add(1)
			}
		}()
	}
	all.Wait()
	fmt.Printf("%d of 20 ran\n", ran.Load())
}
