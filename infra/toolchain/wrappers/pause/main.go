// The process that holds a pod's namespaces open: it sleeps, collects orphans, and ends when it is told to.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for got := range signals {
		if got != syscall.SIGCHLD {
			return
		}
		for {
			ended, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if err != nil || ended <= 0 {
				break
			}
		}
	}
}
