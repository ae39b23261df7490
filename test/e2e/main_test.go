// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the product as its users meet it, on real parts: what clusterctl installed, the manager as its own
// ServiceAccount, real API servers as workload clusters and a real registry. What counts is what a workload cluster
// itself says.
//
// A test file holds the scenarios of one subject. Most share one environment, each in a namespace of its own; those
// that stop managers, count requests or need other flags bring up their own.
//
// HELMOP_E2E_MANAGER may name a manager to test instead of the one that is built, for example one built with -race.
package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/parallel"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/permissions"
)

const (
	// scenarios is the number of tests that use the shared environment at the same time, environments that of tests with
	// an environment of their own, and parts that of the parts of all tests. They mostly wait. But an environment takes a
	// twentieth of a core even at rest, so that more at the same time take longer. With these numbers, both kinds end at
	// about the same time.
	scenarios, environments, parts = 4, 3, 16

	// testsAtOnce is go test's own limit. It is out of the way: it would let the parts of a test wait until all other
	// tests have begun, with the environment of that test idle.
	testsAtOnce = 1000

	// setupTimeout bounds the start of an environment with its binaries there.
	setupTimeout = 10 * time.Minute
)

// suite is what all tests of the process share.
var suite = struct {
	dir    string
	binary func() (string, error)
	pool   *apiserver.Pool

	// installed is an environment in which HelmOp is installed, shared the same with a manager.
	installed, shared func() (*environment.Environment, error)

	scenarios, environments, parts chan struct{}

	// used is what the managers asked the management clusters for.
	used permissions.Used
}{
	scenarios: make(chan struct{}, scenarios), environments: make(chan struct{}, environments),
	parts: make(chan struct{}, parts),
}

// begin begins a test that has an environment of its own.
func begin(t *testing.T) {
	t.Helper()
	t.Parallel()
	occupy(t, suite.environments)
}

// beginFirst begins a test that takes longest of those with an environment of their own. It has a place before all
// others, if one is free at the start: the suite would wait for it in the end.
func beginFirst(t *testing.T) {
	t.Helper()
	select {
	case suite.environments <- struct{}{}:
		t.Cleanup(func() { <-suite.environments })
		t.Parallel()
	default:
		begin(t)
	}
}

// occupy waits for one of so many places, until the end of the test.
func occupy(t *testing.T, places chan struct{}) {
	t.Helper()
	select {
	case places <- struct{}{}:
	default:
		// hack/cmd/testrun reads both lines, and takes the wait off the test's time.
		began := time.Now()
		t.Log("waiting for a place")
		places <- struct{}{}
		t.Logf("waited %.1f s for a place", time.Since(began).Seconds())
	}
	t.Cleanup(func() { <-places })
}

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("skipped: the end-to-end tests start dozens of processes and take minutes; run them without -short")
		return
	}
	os.Exit(runSuite(m))
}

// runSuite runs the tests; the result is the exit code.
func runSuite(m *testing.M) int {
	parallel.AtLeast(testsAtOnce)
	// The test bed's own controllers say nothing of interest.
	ctrl.SetLogger(logr.Discard())
	dir, err := os.MkdirTemp("", "helmop-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	suite.dir = dir
	suite.pool = apiserver.NewPool(filepath.Join(dir, "pool"))
	suite.binary = sync.OnceValues(buildManager)
	var started *environment.Environment
	suite.installed = sync.OnceValues(func() (*environment.Environment, error) {
		var err error
		// The more the manager says, the more a secret could be found in it.
		started, err = startEnvironment("shared",
			environment.Options{ManagerArgs: []string{"--v=6"}, NoManager: true, Keep: true})
		return started, err
	})
	suite.shared = sync.OnceValues(func() (*environment.Environment, error) {
		env, err := suite.installed()
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
		defer cancel()
		_, err = env.StartManager(ctx)
		return env, err
	})
	code := m.Run()
	if started != nil {
		if err := finish(started); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL:", err)
			code = 1
		}
	}
	if code == 0 && wholeSuite() {
		if err := onlyUsedPermissions(); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL: the manager's permissions:", err)
			code = 1
		}
	}
	if err := suite.pool.Stop(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		code = 1
	}
	if code != 0 {
		if os.Getenv("CI") != "" {
			printLogs(dir)
		}
		fmt.Fprintln(os.Stderr, "logs and kubeconfigs are kept in", dir)
		return code
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// printLogs prints the ends of the managers' logs, for machines whose files are out of reach.
func printLogs(dir string) {
	logs, err := filepath.Glob(filepath.Join(dir, "*", "manager-*", "manager.log"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	for _, log := range logs {
		lines, err := lastLines(log, "", dumpedLines)
		fmt.Fprintf(os.Stderr, "the end of %s (%v):\n%s\n", log, err, strings.Join(lines, "\n"))
	}
}

// buildManager builds the manager once for all environments.
func buildManager() (string, error) {
	if given := os.Getenv("HELMOP_E2E_MANAGER"); given != "" {
		return filepath.Abs(given)
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	root, err := binaries.RepositoryRoot()
	if err != nil {
		return "", err
	}
	return testbed.BuildManager(ctx, root, filepath.Join(suite.dir, "bin"))
}

// startEnvironment brings up an environment in a folder of its own.
func startEnvironment(name string, opts environment.Options) (*environment.Environment, error) {
	binary, err := suite.binary()
	if err != nil {
		return nil, err
	}
	opts.ManagerBinary, opts.Pool = binary, suite.pool
	// Not the folder of an earlier run of the same test: a manager would find its artifacts.
	if opts.Dir, err = os.MkdirTemp(suite.dir, strings.ReplaceAll(name, "/", "-")+"-"); err != nil {
		return nil, err
	}
	opts.Progress = func(step string) { fmt.Fprintf(os.Stderr, "%s environment: %s\n", name, step) }
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	return environment.Start(ctx, opts)
}

// finish stops an environment and tells what no scenario may leave behind.
func finish(env *environment.Environment) error {
	var errs []error
	for _, manager := range env.Managers() {
		errs = append(errs, noPanic(manager.LogFile()))
	}
	errs = append(errs, env.Stop(context.Background()), suite.used.Add(env.Management.Server, environment.User))
	return errors.Join(errs...)
}

// ownEnvironment brings up an environment for one test, for what would disturb others.
func ownEnvironment(t *testing.T, opts environment.Options) *environment.Environment {
	t.Helper()
	if !opts.NoInstall && opts.Config == "" && opts.Beside == nil && len(opts.Controllers) == 0 {
		installed, err := suite.installed()
		if err != nil {
			t.Fatal(err)
		}
		opts.Like = installed
	}
	env, err := startEnvironment(t.Name(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := finish(env); err != nil {
			t.Error(err)
		}
	})
	return env
}
