// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"fmt"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// The tests of this file run alone: they stop the API server that the others share, or count goroutines.

func TestAPIServerRestarts(t *testing.T) {
	b := newBench(t)
	deployment, config := b.createDeployment("d", helmLabels()), b.createConfigMap("c")
	release := key("r")
	plan := Plan{
		Objects: []inventory.Ref{deployment, config, b.deploymentRef("gone")}, Checker: checker(t), Drift: true,
		Records: &RecordsRef{Namespace: b.namespace, Name: "app"},
	}
	b.watcher.Follow(release, b.conn, plan)
	before := b.synced(release)
	asked := b.settled(release)

	if err := b.server.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an error", func() bool { return b.look(release).Err != nil })
	if during := b.look(release); !during.Synced || during.Fingerprint != before.Fingerprint {
		t.Errorf("what is known stays while the cluster does not answer, got %+v", during)
	}
	if err := b.server.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the streams to go on", func() bool { return b.look(release).Err == nil })
	if after := b.look(release); after.Fingerprint != before.Fingerprint || b.asked(release) != asked {
		t.Errorf("nothing changed, but the release was asked for %d times: %+v", b.asked(release), after)
	}
	b.rollOut("d")
	b.status(release, deployment, health.Current)
	b.patchConfigMap("c", `{"data":{"k":"other"}}`)
	b.becomes(release, config, "changed",
		func(s State) bool { return s.Fingerprint != before.Objects[config].Fingerprint })
}

func TestObjectDeletedWhileDisconnected(t *testing.T) {
	b := newBench(t)
	deployment := b.createDeployment("d", helmLabels())
	release := key("r")
	b.watcher.Follow(release, b.conn, Plan{Objects: []inventory.Ref{deployment}, Checker: checker(t)})
	b.synced(release)
	// The restarted server no longer has the resource version from which a watch could continue.
	b.watcher.Disconnect(b.conn.Cluster)
	if err := b.server.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.watcher.Follow(release, b.conn, Plan{Objects: []inventory.Ref{deployment}, Checker: checker(t)})
	eventually(t, "an error", func() bool { return b.look(release).Err != nil })
	if err := b.server.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.deleteDeployment("d")
	b.status(release, deployment, health.NotFound)
}

// own returns the number of functions of streams and links on the stacks of all goroutines.
func own() int {
	var b strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&b, 2); err != nil {
		return -1
	}
	return strings.Count(b.String(), "objectwatch.(*feed).") +
		strings.Count(b.String(), "objectwatch.(*link).work")
}

func TestGoroutinesEnd(t *testing.T) {
	b := newBench(t)
	deployment, config := b.createDeployment("d", helmLabels()), b.createConfigMap("c")
	plan := Plan{Objects: []inventory.Ref{deployment, config}, Checker: checker(t), Drift: true}
	// The first connection of the process stays open.
	b.watcher.Follow(key("warm"), b.conn, plan)
	b.synced(key("warm"))
	b.watcher.Forget(key("warm"))
	eventually(t, "the streams to end", func() bool { return own() == 0 })
	before := runtime.NumGoroutine()
	for i := range 20 {
		b.watcher.Follow(key(fmt.Sprint(i)), b.conn, plan)
	}
	b.synced(key("0"))
	for i := range 20 {
		b.watcher.Forget(key(fmt.Sprint(i)))
	}
	eventually(t, "the goroutines to end", func() bool { return own() == 0 && runtime.NumGoroutine() <= before+1 })
	if len(b.watcher.links) > 0 {
		t.Error("the connection is kept without a release")
	}

	// This release hangs, together with the whole Watcher.
	b.watcher.Follow(key("hangs"), b.conn, plan)
	b.synced(key("hangs"))
	if err := b.server.Hang(); err != nil {
		t.Fatal(err)
	}
	other := b.conn
	other.Identity = "other"
	b.watcher.Follow(key("hangs"), other,
		Plan{Objects: []inventory.Ref{deployment, b.deploymentRef("more")}, Checker: checker(t)})
	began := time.Now()
	b.stop()
	took := time.Since(began)
	if err := b.server.Resume(); err != nil {
		t.Fatal(err)
	}
	if own() != 0 || took > 9*time.Second {
		t.Errorf("after %s, %d streams are left", took, own())
	}
}

// waiting returns the number of goroutines that wait for events and that a method of a feed, or its function, called.
func waiting(method string) int {
	var b strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&b, 2); err != nil {
		return -1
	}
	n := 0
	for stack := range strings.SplitSeq(b.String(), "\n\n") {
		calls, _, _ := strings.Cut(stack, "created by")
		if strings.Contains(calls, "(*frames).read(") && strings.Contains(calls, "objectwatch.(*feed)."+method) {
			n++
		}
	}
	return n
}

// TestCostOfStreams reports the memory and the goroutines of streams, for clusters with one health stream and two
// metadata streams each. The streams share one HTTP connection. In a fleet, each cluster has its own.
func TestCostOfStreams(t *testing.T) {
	const clusters, streams, objects = 100, 3, 20
	b := newBench(t)
	var refs []inventory.Ref
	for i := range objects {
		name := fmt.Sprintf("d%d", i)
		refs = append(refs, b.createDeployment(name, helmLabels()))
	}
	refs = append(refs, b.createConfigMap("c"),
		inventory.Ref{Version: "v1", Kind: "ServiceAccount", Namespace: b.namespace, Name: "gone"})
	memory := func() (heap, stacks uint64, goroutines int) {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc, stats.StackInuse, runtime.NumGoroutine()
	}
	config := b.server.RESTConfig()
	config.UserAgent = b.agent
	heapBefore, stacksBefore, goroutinesBefore := memory()
	for i := range clusters {
		conn := b.conn
		conn.Cluster, conn.Config = fmt.Sprint(i), config
		b.watcher.Follow(key(fmt.Sprint(i)), conn, Plan{Objects: refs, Checker: checker(t), Drift: true})
	}
	for i := range clusters {
		b.synced(key(fmt.Sprint(i)))
	}
	heapAfter, stacksAfter, goroutinesAfter := memory()
	per := func(before, after uint64) float64 { return float64(int64(after-before)) / clusters / streams }
	heap, stacks := per(heapBefore, heapAfter), per(stacksBefore, stacksAfter)
	goroutines := per(uint64(goroutinesBefore), uint64(goroutinesAfter))
	t.Logf("%.0f bytes of heap, %.0f bytes of stacks and %.1f goroutines per stream, with %d objects on every third",
		heap, stacks, goroutines, objects)
	// With the race detector, stacks are larger.
	if heap > 32<<10 || stacks > 24<<10 || goroutines > 3 {
		t.Errorf("a stream costs %.0f bytes of heap, %.0f bytes of stacks and %.1f goroutines", heap, stacks, goroutines)
	}
	eventually(t, "all streams to wait with small stacks", func() bool { return waiting("follow") == 0 })
	if got := waiting("await"); got < clusters*streams {
		t.Errorf("%d goroutines wait for events, not %d", got, clusters*streams)
	}
	if sent := b.sent(apiserver.WithVerb("list")); len(sent) > 0 {
		t.Errorf("a server of today streams the first list, got %+v", sent[0])
	}
}
