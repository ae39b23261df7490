// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/parallel"
)

// buildTimeout is the timeout for the start of a shared API server, which may include the build of its programs.
const buildTimeout = 20 * time.Minute

// testsAtOnce is the number of tests of a package that run at the same time, unless -parallel sets another number. They
// mostly wait for the API server and for controllers.
const testsAtOnce = 6

// Shared is the API server of all tests of a package. It starts when the first test calls Server. The zero value is
// ready for use.
type Shared struct {
	once   sync.Once
	dir    string
	set    *binaries.Set
	server *Server
	err    error
}

// Server returns the API server. With -short, it skips the test or benchmark. It fails the test if the API server does
// not start.
func (s *Shared) Server(t testing.TB) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a real API server")
	}
	s.once.Do(func() { s.err = s.start() })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server
}

// Binaries returns the programs of the API server. The caller must have called Server before.
func (s *Shared) Binaries() *binaries.Set { return s.set }

func (s *Shared) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	var err error
	if s.set, err = binaries.Ensure(ctx, binaries.Options{Progress: os.Stderr}); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "apiserver-"); err != nil {
		return err
	}
	s.server, err = Start(ctx, Options{Name: "workload", Dir: filepath.Join(s.dir, "server"), Binaries: s.set})
	return err
}

// Run runs the tests of a package, several at the same time, stops the API server and returns the exit code, for
// TestMain.
func (s *Shared) Run(m *testing.M) int {
	parallel.AtLeast(testsAtOnce)
	code := m.Run()
	if s.server != nil {
		if err := s.server.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the API server:", err)
			code = max(code, 1)
		}
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
	return code
}
