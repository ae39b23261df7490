// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
)

// oneObject is a cluster with one object. Like the transport of an action, it rejects all requests after the end of
// ctx.
type oneObject struct {
	ctx context.Context
	// object is the object; empty if there is none.
	object string
	// event, if it is not empty, is the event that each watch sends after a minute.
	event string

	mu sync.Mutex
	// last is the time of the last request. watches is the number of watches that run.
	last    time.Time
	watches int
}

func (o *oneObject) roundTrip(req *http.Request) (*http.Response, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = time.Now()
	if o.ctx.Err() != nil {
		return nil, o.ctx.Err()
	}
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Request: req}
	switch {
	case req.URL.Query().Get("sendInitialEvents") != "": // Such a watch replaces a list. Old clusters refuse it.
		resp.StatusCode, resp.Body = http.StatusBadRequest, io.NopCloser(strings.NewReader("{}"))
	case req.URL.Query().Get("watch") != "":
		o.watches++
		resp.Body = o.watch(req.Context())
	case req.URL.Query().Get("fieldSelector") != "":
		resp.Body = io.NopCloser(strings.NewReader(fmt.Sprintf(
			`{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":"1"},"items":[%s]}`, o.object)))
	default:
		resp.Body = io.NopCloser(strings.NewReader(o.object))
	}
	return resp, nil
}

// watch returns the body of a watch.
func (o *oneObject) watch(request context.Context) io.ReadCloser {
	out, in := io.Pipe()
	fail := func() { _ = in.CloseWithError(errors.New("the watch ended")) }
	context.AfterFunc(o.ctx, fail)
	context.AfterFunc(request, fail)
	go func() {
		defer func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.watches--
		}()
		select {
		case <-time.After(time.Minute):
			_, _ = io.WriteString(in, o.event)
			<-request.Done()
		case <-o.ctx.Done():
		case <-request.Done():
		}
	}()
	return out
}

// waiter returns a Waiter for an action in the cluster, Helm's own client, and the object with the manifest.
func (o *oneObject) waiter(t *testing.T, manifest string) (*Waiter, *kube.Client, kube.ResourceList) {
	t.Helper()
	config, objects := helmtest.ObjectThrough(t, o.roundTrip, manifest)
	log := func(string, ...any) {}
	helm := &kube.Client{Factory: &connections.Getter{Config: config}, Log: log, Namespace: "apps"}
	return &Waiter{Ctx: o.ctx, Log: log}, helm, objects
}

// TestHooksEndAsInHelm checks that waits for hooks have the results, the durations and the errors of Helm's own waits.
func TestHooksEndAsInHelm(t *testing.T) {
	objectOf, jobKind, podKind := helmtest.ObjectOf, helmtest.JobKind, helmtest.PodKind
	event := func(name, object string) string { return fmt.Sprintf(`{"type":%q,"object":%s}`, name, object) }
	ended := func(condition, status string) string {
		return objectOf(jobKind, fmt.Sprintf(
			`,"status":{"conditions":[{"type":"Suspended","status":"True"},{"type":%q,"status":%q,"reason":"Why"}]}`,
			condition, status))
	}
	phase := func(phase string) string { return objectOf(podKind, fmt.Sprintf(`,"status":{"phase":%q}`, phase)) }
	other := func(group, version, kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
	}
	const timedOut = "timed out waiting for the condition"
	for name, test := range map[string]struct {
		kind          schema.GroupVersionKind
		object, event string
		want          string
		after         time.Duration
	}{
		"job complete":      {jobKind, ended("Complete", "True"), "", "", 0},
		"job failed":        {jobKind, ended("Failed", "True"), "", "job a failed: Why", 0},
		"job will complete": {jobKind, objectOf(jobKind, ""), event("MODIFIED", ended("Complete", "True")), "", time.Minute},
		"job will fail":     {jobKind, ended("Complete", "False"), event("MODIFIED", ended("Failed", "True")), "job a failed: Why", time.Minute},
		"job deleted":       {jobKind, objectOf(jobKind, ""), event("DELETED", objectOf(jobKind, "")), "", time.Minute},
		"job created late":  {jobKind, "", event("ADDED", ended("Complete", "True")), "", time.Minute},
		"job without end":   {jobKind, ended("Failed", "False"), "", timedOut, time.Hour},
		"no job":            {jobKind, "", "", timedOut, time.Hour},
		"unreadable job":    {jobKind, objectOf(jobKind, `,"status":{"active":"x"}`), "", "expected a to be a *batch.Job, got *unstructured.Unstructured", 0},
		"job of another kind": {other("batch.example.com", "v1", "Job"),
			objectOf(other("batch.example.com", "v1", "Job"), ""), "",
			"expected a to be a *batch.Job, got *unstructured.Unstructured", 0},
		"pod of another kind": {other("example.com", "v1", "Pod"), objectOf(other("example.com", "v1", "Pod"), ""), "",
			"expected a to be a *v1.Pod, got *unstructured.Unstructured", 0},
		"pod succeeded":   {podKind, phase("Succeeded"), "", "", 0},
		"pod failed":      {podKind, phase("Failed"), "", "pod a failed", 0},
		"pod will fail":   {podKind, phase("Pending"), event("MODIFIED", phase("Failed")), "pod a failed", time.Minute},
		"pod without end": {podKind, phase("Running"), "", timedOut, time.Hour},
		"other kind":      {other("", "v1", "Service"), objectOf(other("", "v1", "Service"), ""), "", "", 0},
	} {
		if test.want != "" {
			test.want = "1 error occurred:\n\t* " + test.want + "\n\n"
		}
		for client, isHelm := range map[string]bool{"Helm": true, "HelmOp": false} {
			t.Run(name+"/"+client, func(t *testing.T) {
				helmtest.InBubble(t, func(t *testing.T) {
					cluster := &oneObject{ctx: t.Context(), object: test.object, event: test.event}
					waiter, helm, hooks := cluster.waiter(t, objectOf(test.kind, ""))
					waiter.Stop = t.Context()
					wait := waiter.ForHooks
					if isHelm {
						wait = helm.WatchUntilReady
					}
					begun := time.Now()
					got := ""
					if err := wait(hooks, time.Hour); err != nil {
						got = err.Error()
					}
					if took := time.Since(begun); got != test.want || took.Truncate(time.Minute) != test.after {
						t.Errorf("%q after %s", got, took)
					}
				})
			})
		}
	}
}

// TestStopEndsWaitForHook checks that nothing of a wait for a hook remains after the action is stopped or loses its
// record, although the action has not ended.
func TestStopEndsWaitForHook(t *testing.T) {
	errStop := errors.New("the release is being deleted")
	for name, stop := range map[string]func(waiter *Waiter, cancel context.CancelCauseFunc){
		"stopped": func(_ *Waiter, cancel context.CancelCauseFunc) {
			time.AfterFunc(RecordInterval, func() { cancel(errStop) })
		},
		"no record": func(waiter *Waiter, _ context.CancelCauseFunc) { waiter.Recorded = func() error { return errStop } },
	} {
		t.Run(name, func(t *testing.T) {
			helmtest.InBubble(t, func(t *testing.T) {
				action, end := context.WithCancel(t.Context())
				cluster := &oneObject{ctx: action, object: helmtest.ObjectOf(helmtest.JobKind, "")}
				waiter, _, hooks := cluster.waiter(t, cluster.object)
				stopped, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				waiter.Stop = stopped
				stop(waiter, cancel)
				if err := waiter.ForHooks(hooks, time.Hour); !errors.Is(err, errStop) {
					t.Errorf("error %v", err)
				}
				synctest.Wait()
				stacks := make([]byte, 1<<20)
				stacks = stacks[:runtime.Stack(stacks, true)]
				if bytes.Contains(stacks, []byte("k8s.io/client-go")) || bytes.Contains(stacks, []byte("UntilStop")) ||
					cluster.watches > 0 {
					t.Errorf("%d watches after the wait, and goroutines:\n%s", cluster.watches, stacks)
				}
				end()
			})
		})
	}
}

// TestStoppedWaitEnds checks that a wait that was stopped sends no request later than two minutes after the end of its
// action.
func TestStoppedWaitEnds(t *testing.T) {
	pod := helmtest.ObjectOf(helmtest.PodKind, `,"status":{"phase":"Pending"}`)
	for name, wait := range map[string]func(*Waiter, *kube.Client, kube.ResourceList) error{
		"ready": func(waiter *Waiter, helm *kube.Client, objects kube.ResourceList) error {
			return waiter.UntilStop(objects, time.Hour, helm.Wait)
		},
		"deleted": func(waiter *Waiter, _ *kube.Client, objects kube.ResourceList) error {
			return waiter.ForDeletion(objects, time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			helmtest.InBubble(t, func(t *testing.T) {
				action, end := context.WithCancel(t.Context())
				cluster := &oneObject{ctx: action,
					object: strings.Replace(pod, `"name"`, `"deletionTimestamp":"2026-01-01T00:00:00Z","name"`, 1)}
				waiter, helm, objects := cluster.waiter(t, pod)
				stopped, cancel := context.WithCancel(t.Context())
				waiter.Stop = stopped
				time.AfterFunc(10*time.Second, cancel)
				if err := wait(waiter, helm, objects); !errors.Is(err, context.Canceled) {
					t.Errorf("error %v", err)
				}
				ended := time.Now()
				end()
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if took := cluster.last.Sub(ended); took > 2*time.Minute {
					t.Errorf("the last request came after %s", took)
				}
			})
		})
	}
}
