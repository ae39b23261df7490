// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests HelmOp on real parts, as its users run it. clusterctl installs HelmOp, and the manager runs as its
// own ServiceAccount. Workload clusters are real API servers, and the registry is real, too. The tests check what
// workload clusters contain.
//
// A test file holds the scenarios of one subject. Most share one environment, each in its own namespace. Scenarios that
// stop managers, count requests or need other flags start their own environment.
//
// HELMOP_E2E_MANAGER may name a manager to test instead of building one, for example a manager built with -race.
package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/containers"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/parallel"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/permissions"
)

const (
	// scenarios is the number of tests that use the shared environment at the same time. environments is the number of
	// tests with their own environment, and parts the number of parts of all tests. They mostly wait. But even an idle
	// environment uses a twentieth of a core, so more environments at the same time would be slower. With these numbers,
	// both kinds of tests end at about the same time.
	scenarios, environments, parts = 4, 3, 16

	// testsAtOnce is go test's own limit, set so high that it has no effect. Otherwise the parts of a test would wait
	// until all other tests have begun, while the environment of the test is idle.
	testsAtOnce = 1000

	// collection is GOGC of this process.
	collection = 400

	// setupTimeout is the timeout for the start of an environment whose binaries are ready.
	setupTimeout = 10 * time.Minute
)

// suite is the state that all tests of the process share.
var suite = struct {
	dir    string
	binary func() (string, error)
	pool   *apiserver.Pool

	// installed returns an environment in which HelmOp is installed. shared returns the same with a manager.
	installed, shared func() (*environment.Environment, error)

	scenarios, environments, parts *slots

	// used collects the managers' requests to the management clusters.
	used permissions.Used
}{
	scenarios: &slots{free: scenarios}, environments: &slots{free: environments}, parts: &slots{free: parts},
}

// longest lists the tests that take longest. The longest come first, because they get the first free slots: otherwise
// the suite would wait for one of them at the end. The first three do not need the installation in the shared
// environment, so they begin before it is ready.
var longest = []string{
	"TestClusterctlUpgrade", "TestBootstrap", "TestManagementCluster", "TestHostileChart", "TestBootstrapMove",
	"TestSourceFaults", "TestManagerRestartContinuesActions", "TestMigrateCAAPH", "TestPause", "TestClusterDeleted",
	"TestRegistryDown", "TestSharding", "TestFleet", "TestMigrateFleet", "TestChartCannotBePulled",
	"TestMassDeletionWaitsForConfirmation", "TestAdoption", "TestUnresponsiveClusterDelaysNoOther",
	"TestMigrateHelm", "TestReleasesReportUnreachableCluster", "TestRolloutContinuesAfterManagerIsKilled",
	"TestMove", "TestOverrides", "TestReleaseMovesBetweenHelmOps", "TestRollout", "TestSource", "TestHostileServers",
	"TestLostReleasesFollowRollout", "TestClusterDeletionWaitsForUninstallation", "TestRuntimeExtension",
	"TestFairShares", "TestHostileUser", "TestRecords",
}

// rank returns the position of a test in the order of the tests.
func rank(t *testing.T) int {
	name, _, _ := strings.Cut(t.Name(), "/")
	if i := slices.Index(longest, name); i >= 0 {
		return i
	}
	return len(longest)
}

// begin begins a test that has its own environment.
func begin(t *testing.T) {
	t.Helper()
	// The slots that are free at the start go to the first tests, before parallel tests continue.
	if rank(t) < environments && suite.environments.tryTake() {
		t.Cleanup(suite.environments.giveBack)
		t.Parallel()
		return
	}
	t.Parallel()
	occupy(t, suite.environments)
}

// slots are places for tests that run at the same time.
type slots struct {
	mu   sync.Mutex
	free int
	// waiting are the tests that wait. A free slot goes to the one with the lowest rank, or to the one of these that waits
	// longest.
	waiting []turn
}

// turn is closed when a waiting test gets its slot.
type turn struct {
	rank  int
	begun chan struct{}
}

// tryTake takes a slot if one is free.
func (s *slots) tryTake() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 {
		return false
	}
	s.free--
	return true
}

// wait waits for a slot.
func (s *slots) wait(rank int) {
	next := turn{rank: rank, begun: make(chan struct{})}
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		close(next.begun)
	} else {
		s.waiting = append(s.waiting, next)
	}
	s.mu.Unlock()
	<-next.begun
}

// giveBack gives a slot to the next test that waits.
func (s *slots) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.free++
		return
	}
	next := slices.MinFunc(s.waiting, func(a, b turn) int { return a.rank - b.rank })
	s.waiting = slices.DeleteFunc(s.waiting, func(t turn) bool { return t == next })
	close(next.begun)
}

// occupy waits for a slot and occupies it until the end of the test.
func occupy(t *testing.T, places *slots) {
	t.Helper()
	if !places.tryTake() {
		// hack/cmd/testrun reads both lines, and subtracts the wait from the test's time.
		began := time.Now()
		t.Log("waiting for a slot")
		places.wait(rank(t))
		t.Logf("waited %.1f s for a slot", time.Since(began).Seconds())
	}
	t.Cleanup(places.giveBack)
}

func TestMain(m *testing.M) {
	cli.Serve()
	servePlugin()
	containers.Serve()
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
	// This process has the test bed's controllers and reads all audit logs. Fewer collections save CPU time.
	debug.SetGCPercent(collection)
	// The logs of the test bed's own controllers are not needed.
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
		// With more log lines, a leaked secret is more likely to be found.
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

// printLogs prints the ends of the managers' logs, for machines whose files cannot be read.
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

// startEnvironment starts an environment in its own folder.
func startEnvironment(name string, opts environment.Options) (*environment.Environment, error) {
	binary, err := suite.binary()
	if err != nil {
		return nil, err
	}
	opts.ManagerBinary, opts.Pool = binary, suite.pool
	// A folder of an earlier run of the same test would contain the earlier manager's artifacts.
	if opts.Dir, err = os.MkdirTemp(suite.dir, strings.ReplaceAll(name, "/", "-")+"-"); err != nil {
		return nil, err
	}
	opts.Progress = func(step string) { fmt.Fprintf(os.Stderr, "%s environment: %s\n", name, step) }
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	return environment.Start(ctx, opts)
}

// finish stops an environment and returns errors about things that no scenario may leave.
func finish(env *environment.Environment) error {
	var errs []error
	for _, manager := range env.Managers() {
		errs = append(errs, noFault(manager.LogFile()))
	}
	errs = append(errs, env.Stop(context.Background()), suite.used.Add(env.Management.Server, environment.User))
	return errors.Join(errs...)
}

// ownEnvironment starts an environment for one test that would disturb others.
func ownEnvironment(t *testing.T, opts environment.Options) *environment.Environment {
	t.Helper()
	if !opts.NoInstall && opts.Config == "" && opts.Beside == nil {
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
