// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are below the range from which kernels pick the local ports of outgoing connections (32768 and up on Linux). A
// program that is stopped for a while therefore finds its port free.
const (
	firstPort = 20000
	lastPort  = 32000
)

var (
	portsMu sync.Mutex
	// handedOut are the ports that this process has returned: their programs may not listen yet.
	handedOut = map[int]bool{}
)

// FreePort returns a loopback TCP port on which no program listens, and which FreePort has not returned before. Another
// process may still take the port: if their program cannot listen, callers try again with another port.
func FreePort() (int, error) {
	portsMu.Lock()
	defer portsMu.Unlock()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if handedOut[port] {
			continue
		}
		l, err := net.Listen("tcp", Loopback(port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		handedOut[port] = true
		return port, nil
	}
	return 0, errors.New("find a free port: none of 1000 tried")
}

// FreePorts returns n ports like FreePort.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		ports[i] = port
	}
	return ports, nil
}

// Loopback returns the address of a port on 127.0.0.1.
func Loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
