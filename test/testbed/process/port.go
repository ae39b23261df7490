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

// Ports are taken below the range from which kernels pick the local ports of
// outgoing connections (32768 and up on Linux), so that a program that is
// stopped for a while finds its port still free.
const (
	firstPort = 20000
	lastPort  = 32000
)

var (
	portsMu sync.Mutex
	// handedOut are the ports that this process gave away: their programs may
	// not listen yet.
	handedOut = map[int]bool{}
)

// FreePort returns a loopback TCP port on which nothing listens and which it
// has not returned before. Another process may still take it: callers start
// again with another port when their program cannot listen.
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

// FreePorts returns n ports as FreePort does.
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
