// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/contestant"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/measure"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

const (
	// profileSeconds is the duration of a CPU profile. maxProfiles is the largest number of CPU profiles of a phase, which
	// follow each other until its end.
	profileSeconds, maxProfiles = 10, 6
	// settleInterval is the time between two samples of SettledMemory. settlePatience is the timeout of the wait.
	settleInterval, settlePatience = 2 * time.Second, 90 * time.Second

	// settledShare is by how much, as a share, settled memory may still fall.
	settledShare = 0.03

	// metricsInterval is the time between two reads of the manager's metrics in a wait. It is not shorter because each
	// read makes the manager list everything that it counts. While more than manyWaiting releases wait for a worker, the
	// end is far, and the time is busyInterval: in a restart, shorter times would be a fifth of the manager's work.
	metricsInterval, busyInterval, manyWaiting = 500 * time.Millisecond, 2 * time.Second, 500
)

// Traffic are the numbers of requests in the audit logs of the API servers.
type Traffic struct {
	// Management are the manager's requests to the management cluster, without requests for its lease and for
	// authorizing readers of its metrics. Writes are the writes among them, by resource.
	Management int
	Writes     map[string]int
	// Workload are the manager's requests to workload clusters, without the connections' health probes. A watch counts
	// once.
	Workload int
	// Watches are the watches among them, Changes the writes.
	Watches, Changes int
	// KindLists are lists of all objects of a kind that have Helm's label. By these lists the manager notices deleted
	// objects.
	KindLists int
	// Probes are the health probes.
	Probes int
	// Payloads are the reads of single records of Helm with their content. RecordBytes counts the content in lists.
	Payloads int
	// Places are the Clusters and namespaces in which Helm's records were listed.
	Places int
	// Contestant are the requests of contestants to workload clusters.
	Contestant int
}

// Mark is a time from which Traffic is counted.
type Mark struct {
	since time.Time
	ends  map[*apiserver.Server]int64
}

// Mark starts to count.
func (w *World) Mark() (Mark, error) {
	m := Mark{ends: map[*apiserver.Server]int64{}}
	for _, server := range w.all() {
		end, err := server.AuditEnd()
		if err != nil {
			return m, err
		}
		m.ends[server] = end
	}
	m.since = time.Now()
	return m, nil
}

func (w *World) all() []*apiserver.Server {
	return append([]*apiserver.Server{w.Env.Management.Server}, w.Servers...)
}

// Traffic returns the numbers of requests since the mark.
func (w *World) Traffic(m Mark) (Traffic, error) {
	t := Traffic{Writes: map[string]int{}}
	requests, err := w.Env.Management.Server.RequestsFrom(m.ends[w.Env.Management.Server], apiserver.Since(m.since),
		apiserver.ByUser(environment.User))
	if err != nil {
		return t, err
	}
	for i := range requests {
		t.management(&requests[i])
	}
	places := map[string]bool{}
	for _, server := range w.Servers {
		requests, err := server.RequestsFrom(m.ends[server], apiserver.Since(m.since))
		if err != nil {
			return t, err
		}
		for i := range requests {
			t.workload(&requests[i], places)
		}
	}
	t.Places = len(places)
	return t, nil
}

// Requests returns how many requests were sent since the mark: by a user to the management cluster, without requests
// for leases and for authorizing readers of metrics, and by the users of Clusters to workload clusters. A watch counts
// once. Without a user, the first number is 0.
func (w *World) Requests(m Mark, user string, clusters []Cluster) (management, workload int, err error) {
	server := w.Env.Management.Server
	if user != "" {
		requests, err := server.RequestsFrom(m.ends[server], apiserver.Since(m.since), apiserver.ByUser(user))
		if err != nil {
			return 0, 0, err
		}
		management = len(slices.DeleteFunc(requests, func(r apiserver.Request) bool { return isOverhead(r.Resource) }))
	}
	for i := range clusters {
		server := clusters[i].Server
		requests, err := server.RequestsFrom(m.ends[server], apiserver.Since(m.since), apiserver.ByUser(clusters[i].Name))
		if err != nil {
			return 0, 0, err
		}
		workload += len(requests)
	}
	return management, workload, nil
}

// isOverhead reports whether requests for a resource of the management cluster are not for the work of a manager.
func isOverhead(resource string) bool {
	return slices.Contains([]string{"leases", "tokenreviews", "subjectaccessreviews"}, resource)
}

func (t *Traffic) management(r *apiserver.Request) {
	if isOverhead(r.Resource) {
		return
	}
	t.Management++
	if apiserver.Writes()(*r) {
		t.Writes[r.Resource]++
	}
}

func (t *Traffic) workload(r *apiserver.Request, places map[string]bool) {
	if strings.HasPrefix(r.UserAgent, contestant.UserAgent) {
		t.Contestant++
		return
	}
	if !isManager(r.UserAgent) {
		return
	}
	if r.URI == "/version" { // The engine's request for the version has a timeout parameter.
		t.Probes++
		return
	}
	t.Workload++
	switch {
	case r.Verb == "watch":
		t.Watches++
	case r.Verb == "list" && strings.Contains(r.URI, kindListSelector):
		t.KindLists++
	case apiserver.Writes()(*r):
		t.Changes++
	case r.Resource == "secrets" && r.Verb == "get" && strings.HasPrefix(r.Name, "sh.helm.release."):
		t.Payloads++
	case r.Resource == "secrets" && r.Verb == "list":
		places[r.User+"/"+r.Namespace] = true
	}
}

// kindListSelector is part of the URI of each list of KindLists.
const kindListSelector = "labelSelector=app.kubernetes.io%2Fmanaged-by%3DHelm"

// isManager reports whether a request is the manager's. Its release engine has the user agent helmop.
func isManager(userAgent string) bool {
	return strings.HasPrefix(userAgent, "helmop-manager/") || userAgent == "helmop"
}

// RecordBytes returns how many bytes of Secrets, which contain Helm's records, the workload API servers have sent. It
// counts answers to reads, and to lists in single namespaces, for all users. The metrics of each server are megabytes:
// a measurement reads them before and after its phase.
func (w *World) RecordBytes(ctx context.Context) (float64, error) {
	sent := make([]float64, len(w.Servers))
	err := parallel(len(w.Servers), starting, func(i int) error {
		config := w.Servers[i].RESTConfig()
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			return err
		}
		metrics, err := measure.Read(ctx, client, config.Host+"/metrics", http.Header{})
		const sizes, secrets = "apiserver_response_sizes_sum", `resource="secrets"`
		sent[i] = metrics.Sum(sizes, secrets) - metrics.Sum(sizes, secrets, `scope="cluster"`)
		return err
	})
	total := 0.0
	for _, bytes := range sent {
		total += bytes
	}
	return total, err
}

// Cost is the cost of a phase for the manager and its child processes, which render charts.
type Cost struct {
	Wall, CPU time.Duration
	// Peak is the largest memory during the phase, in bytes. Memory that processes share counts for each of them.
	Peak     int64
	Traffic  Traffic
	Registry registry.Counts
}

// Measure measures the manager while do runs.
func (m *Manager) Measure(ctx context.Context, phase string, do func() error) (Cost, error) {
	used, err := measure.Trees(m.PID())
	if err != nil {
		return Cost{}, err
	}
	m.world.Env.Registry.ResetCounts()
	mark, err := m.world.Mark()
	if err != nil {
		return Cost{}, err
	}
	return m.measure(ctx, phase, mark, used.CPU, time.Now(), do)
}

// MeasureLife measures the manager from its start until do has run. The mark is from before the start.
func (m *Manager) MeasureLife(ctx context.Context, phase string, mark Mark, do func() error) (Cost, error) {
	return m.measure(ctx, phase, mark, 0, m.Began, do)
}

// measure measures from begun on. cpu is the CPU time that the manager had used before.
func (m *Manager) measure(ctx context.Context, phase string, mark Mark, cpu time.Duration, begun time.Time,
	do func() error,
) (Cost, error) {
	peak := measure.FollowTreesPeak(m.PID())
	defer peak.Stop()
	profiled := m.profile(ctx, phase)
	err := do()
	cost := Cost{Wall: time.Since(begun)}
	if err != nil {
		return cost, fmt.Errorf("%s: %w", phase, err)
	}
	used, err := measure.Trees(m.PID())
	if err != nil {
		return cost, err
	}
	cost.CPU, cost.Peak, cost.Registry = used.CPU-cpu, peak.Stop(), m.world.Env.Registry.Counts()
	if cost.Traffic, err = m.world.Traffic(mark); err != nil {
		return cost, err
	}
	return cost, profiled()
}

// profile takes profiles of a phase: of the CPU during the phase, and the others and the metrics at its end. The caller
// calls the returned function at the end of the phase. It waits for the profiles. Go's pprof combines those of the CPU.
func (m *Manager) profile(ctx context.Context, phase string) (end func() error) {
	dir := m.world.opts.Profiles
	if dir == "" {
		return func() error { return nil }
	}
	file := func(kind string) string {
		return filepath.Join(dir, strings.ReplaceAll(phase, " ", "-")+"."+kind+".pprof")
	}
	cpu := make(chan error, 1)
	var ended atomic.Bool
	go func() {
		var err error
		for i := 1; i <= maxProfiles && err == nil && !ended.Load(); i++ {
			err = m.Save(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", profileSeconds), file(fmt.Sprint("cpu-", i)))
		}
		cpu <- err
	}()
	return func() error {
		ended.Store(true)
		errs := []error{<-cpu}
		for _, kind := range []string{"heap", "mutex", "goroutine", "allocs"} {
			errs = append(errs, m.Save(ctx, "/debug/pprof/"+kind, file(kind)))
		}
		errs = append(errs, m.Save(ctx, "/metrics", filepath.Join(dir, strings.ReplaceAll(phase, " ", "-")+".metrics.txt")))
		return errors.Join(errs...)
	}
}

// Size is the size of a manager.
type Size struct {
	// Memory is the resident memory. Files is its part that consists of pages of files, mostly of the program. Heap is
	// the part of the heap in use. All are in bytes.
	Memory, Files, Heap int64
	Goroutines          int
	// Connections is the number of workload clusters to which the manager is connected.
	Connections int
}

// Size returns the current memory of the manager, and its heap after a garbage collection.
func (m *Manager) Size(ctx context.Context) (Size, error) {
	memory, err := measure.Memory(m.PID())
	if err != nil {
		return Size{}, err
	}
	files, err := measure.Files(m.PID())
	if err != nil {
		return Size{}, err
	}
	if err := m.CollectGarbage(ctx); err != nil {
		return Size{}, err
	}
	metrics, err := m.Metrics(ctx)
	return Size{
		Memory: memory, Files: files, Heap: int64(metrics.Sum("go_memstats_heap_alloc_bytes")),
		Goroutines:  int(metrics.Sum("go_goroutines")),
		Connections: connections(metrics),
	}, err
}

// SettledMemory returns the manager's memory when it no longer falls. It waits for minutes at most. Memory of an action
// is returned with a delay: connections half a minute after they were closed, and pages to the system step by step. The
// result is the largest sample of the last period, because the time of a garbage collection is not known.
func (m *Manager) SettledMemory(ctx context.Context, while time.Duration) (int64, error) {
	var samples []int64
	n := int(while/settleInterval) + 1
	err := wait.PollUntilContextTimeout(ctx, settleInterval, settlePatience, true, func(context.Context) (bool, error) {
		memory, err := measure.Memory(m.PID())
		samples = append(samples, memory)
		return err == nil && isSettled(samples, n), err
	})
	switch {
	case err == nil:
	case wait.Interrupted(err) && ctx.Err() == nil:
		m.world.opts.Log("the manager's memory has not settled within %s", settlePatience)
	default:
		return 0, err
	}
	return slices.Max(samples[max(0, len(samples)-n):]), nil
}

// isSettled reports whether the last n samples of memory do not fall: no sample in their second half is much smaller
// than the smallest sample in their first half.
func isSettled(samples []int64, n int) bool {
	if len(samples) < max(n, 2) {
		return false
	}
	last := samples[len(samples)-n:]
	earlier, later := last[:n/2], last[n/2:]
	return float64(slices.Min(later)) >= (1-settledShare)*float64(slices.Min(earlier))
}

// connections returns the number of workload clusters to which a manager is connected.
func connections(metrics measure.Metrics) int {
	return int(metrics.Sum("helmop_clusters_connected"))
}

// WaitConnected waits until the manager is connected to n workload clusters.
func (m *Manager) WaitConnected(ctx context.Context, n int) error {
	return m.waitMetrics(ctx, func(metrics measure.Metrics) (bool, time.Duration) {
		return connections(metrics) >= n, metricsInterval
	})
}

// WaitRecognized waits until the manager is connected to n workload clusters, has checked this number of releases and
// has nothing to do at once. The manager reports a release that it could not check yet as ClusterUnreachable.
func (m *Manager) WaitRecognized(ctx context.Context, n, releases int) error {
	return m.waitCalm(ctx, func(metrics measure.Metrics) bool {
		return connections(metrics) >= n &&
			int(metrics.Sum("controller_runtime_reconcile_total", releaseController)) >= releases &&
			metrics.Sum("helmop_releases", `reason="ClusterUnreachable"`) == 0
	})
}

// WaitCalm waits until the manager has nothing to do at once, including the checks after its actions.
func (m *Manager) WaitCalm(ctx context.Context) error {
	return m.waitCalm(ctx, func(measure.Metrics) bool { return true })
}

// releaseController is the label of metrics of the controller of releases.
const releaseController = `controller="helmoprelease"`

// waitCalm waits until the metrics match and the manager reconciles no release.
func (m *Manager) waitCalm(ctx context.Context, matches func(measure.Metrics) bool) error {
	calm := 0
	return m.waitMetrics(ctx, func(metrics measure.Metrics) (bool, time.Duration) {
		waiting := metrics.Sum("workqueue_depth", releaseController)
		if waiting == 0 && matches(metrics) && metrics.Sum("helmop_cluster_reads") == 0 &&
			metrics.Sum("controller_runtime_active_workers", releaseController) == 0 {
			calm++
		} else {
			calm = 0
		}
		return calm == 2, intervalFor(waiting)
	})
}

// intervalFor returns the time until the next read of the metrics if a number of releases wait for a worker.
func intervalFor(waiting float64) time.Duration {
	if waiting > manyWaiting {
		return busyInterval
	}
	return metricsInterval
}

// waitMetrics waits until the metrics match. If they do not, matches returns the time until the next read.
func (m *Manager) waitMetrics(ctx context.Context, matches func(measure.Metrics) (bool, time.Duration)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		began, next := time.Now(), metricsInterval
		// A manager that has just started may not answer yet.
		metrics, err := m.Metrics(ctx)
		if err == nil {
			var done bool
			if done, next = matches(metrics); done {
				return nil
			}
		}
		select {
		case <-m.Done():
			return errors.New("the manager has ended")
		case <-ctx.Done():
			return fmt.Errorf("the metrics of the manager do not match: %w", errors.Join(ctx.Err(), err))
		case <-time.After(time.Until(began.Add(next))):
		}
	}
}
