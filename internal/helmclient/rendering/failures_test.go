// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytelru"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// countingRunner counts the tasks that it runs. A task that Begin refuses does not run.
type countingRunner struct {
	sandbox.Runner
	tasks int
}

func (c *countingRunner) Run(ctx context.Context, request sandbox.Request) ([]byte, error) {
	begin := request.Begin
	request.Begin = func() error {
		if begin != nil {
			if err := begin(); err != nil {
				return err
			}
		}
		c.tasks++
		return nil
	}
	return c.Runner.Run(ctx, request)
}

// failureBench renders with a clock that tests move.
type failureBench struct {
	*Renderer
	runner *countingRunner
	clock  time.Time
}

func newFailureBench() *failureBench {
	b := &failureBench{runner: &countingRunner{Runner: sandbox.InProcess(Tasks())}, clock: time.Unix(1_800_000_000, 0)}
	b.Renderer = NewRenderer(b.runner)
	b.failures.now = func() time.Time { return b.clock }
	return b
}

// TestFailureIsKept checks that a retry of a failed rendering runs no task, unless something that the task depends on
// may have changed.
func TestFailureIsKept(t *testing.T) {
	t.Parallel()
	const fails = `{{ fail "because" }}`
	type attempt struct {
		Source
		Options
		after time.Duration
	}
	for name, tc := range map[string]struct {
		template string
		// change changes the second attempt.
		change func(*attempt)
		// tasks is the number of tasks of both attempts.
		tasks int
	}{
		"the same":         {template: fails, tasks: 1},
		"no template":      {template: `{{ if }}`, tasks: 1},
		"within a minute":  {template: fails, change: func(a *attempt) { a.after = 59 * time.Second }, tasks: 1},
		"after a minute":   {template: fails, change: func(a *attempt) { a.after = time.Minute }, tasks: 2},
		"a success":        {template: "kind: A\n", tasks: 2},
		"it looked up":     {template: `{{ lookup "v1" "Node" "" "" }}` + fails, tasks: 2},
		"another chart":    {template: fails, change: func(a *attempt) { a.Chart = newChart("2.0.0", nil) }, tasks: 2},
		"another tenant":   {template: fails, change: func(a *attempt) { a.Tenant = "b" }, tasks: 2},
		"other values":     {template: fails, change: func(a *attempt) { a.Values["x"] = "y" }, tasks: 2},
		"another revision": {template: fails, change: func(a *attempt) { a.Release.Revision = 2 }, tasks: 2},
		"another kind is served": {template: fails, change: func(a *attempt) {
			// The copy of the capabilities has the array of the original, which all cases use.
			a.Capabilities.APIVersions = append(slices.Clone(a.Capabilities.APIVersions), "a/v1/B")
		}, tasks: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFailureBench()
			a := &attempt{
				Source: Source{Chart: newChart("1.0.0", map[string]string{"a.yaml": tc.template}), Tenant: "a",
					Values: map[string]any{}},
				Options: Options{Release: demoRelease, Capabilities: chartutil.DefaultCapabilities.Copy(),
					Lookup: func(string, string, string, string) (map[string]any, error) { return map[string]any{}, nil }},
			}
			_, first := b.Render(t.Context(), a.Source, a.Options)
			if tc.change != nil {
				tc.change(a)
			}
			b.clock = b.clock.Add(a.after)
			_, second := b.Render(t.Context(), a.Source, a.Options)
			if b.runner.tasks != tc.tasks {
				t.Errorf("%d tasks ran, want %d", b.runner.tasks, tc.tasks)
			}
			if tc.tasks == 1 && (first == nil || second == nil || first.Error() != second.Error()) {
				t.Errorf("first %v, then %v", first, second)
			}
		})
	}
}

// TestFailureOfValuesIsKept checks that a kept failure has its kind.
func TestFailureOfValuesIsKept(t *testing.T) {
	t.Parallel()
	b := newFailureBench()
	chrt := newChart("1.0.0", nil)
	chrt.Schema = []byte(`{"required": ["a"]}`)
	for range 2 {
		if err := b.CheckValues(t.Context(), Source{Chart: chrt}); !errors.Is(err, ErrInvalidValues) {
			t.Errorf("got %v", err)
		}
	}
	if b.runner.tasks != 1 {
		t.Errorf("%d tasks ran, want 1", b.runner.tasks)
	}
}

// TestValidValuesAreKept checks that a retry does not check values again that are valid. A chart may fail after this
// check.
func TestValidValuesAreKept(t *testing.T) {
	t.Parallel()
	b := newFailureBench()
	chrt := newChart("1.0.0", nil)
	chrt.Schema = []byte(`{"required": ["a"]}`)
	source := Source{Chart: chrt, Values: map[string]any{"a": "b"}}
	for range 2 {
		if err := b.CheckValues(t.Context(), source); err != nil {
			t.Error(err)
		}
	}
	if b.runner.tasks != 1 {
		t.Errorf("%d tasks ran, want 1", b.runner.tasks)
	}
	source.Values = map[string]any{}
	if err := b.CheckValues(t.Context(), source); !errors.Is(err, ErrInvalidValues) {
		t.Errorf("other values: got %v", err)
	}
}

// TestLimitIsNotKept checks that a task that was stopped runs again.
func TestLimitIsNotKept(t *testing.T) {
	t.Parallel()
	r := newTestRenderer(t, sandbox.Limits{Memory: 64 << 20})
	counting := &countingRunner{Runner: r.runner}
	r.runner = counting
	chrt := newChart("1.0.0", map[string]string{"a.yaml": `{{ repeat 68719476736 "x" | len }}`})
	for range 2 {
		_, err := r.Render(t.Context(), Source{Chart: chrt},
			Options{Release: demoRelease, Capabilities: chartutil.DefaultCapabilities.Copy()})
		if !errors.Is(err, ErrLimit) {
			t.Errorf("got %v", err)
		}
	}
	if counting.tasks != 2 {
		t.Errorf("%d tasks ran, want 2", counting.tasks)
	}
}

// TestBeginOfTask checks that Begin is called before each task that runs, and only then, and can refuse the task.
func TestBeginOfTask(t *testing.T) {
	t.Parallel()
	b := newFailureBench()
	begun, refusal := 0, error(nil)
	source := Source{Chart: newChart("1.0.0", map[string]string{"a.yaml": `{{ fail "because" }}`}), Begin: func() error {
		if begun++; b.runner.tasks != begun-1 {
			t.Errorf("%d tasks ran before, want %d", b.runner.tasks, begun-1)
		}
		return refusal
	}}
	options := Options{Release: demoRelease, Capabilities: chartutil.DefaultCapabilities.Copy()}
	for range 2 {
		if _, err := b.Render(t.Context(), source, options); err == nil || !strings.Contains(err.Error(), "because") {
			t.Errorf("got %v", err)
		}
	}
	if begun != 1 {
		t.Errorf("%d tasks begun, want 1: the second failure is kept", begun)
	}
	changes := &PostRender{Labels: map[string]string{"a": "b"}}
	renderer, err := b.PostRenderer(t.Context(), changes, "apps", source)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := renderer.Run(bytes.NewBufferString("")); err != nil || begun != 2 {
		t.Errorf("post-rendering: %d tasks begun, %v", begun, err)
	}
	refusal = errors.New("not counted")
	source.Values = map[string]any{"a": "b"}
	for range 2 {
		if _, err := b.Render(t.Context(), source, options); !errors.Is(err, refusal) {
			t.Errorf("got %v", err)
		}
		begun--
	}
	if b.runner.tasks != 2 {
		t.Errorf("%d tasks ran, want 2: the refused tasks do not run", b.runner.tasks)
	}
}

// TestKeptFailuresAreBounded checks that many long failures do not exceed the limit in bytes, and that a tenant with
// many failures does not evict those of another tenant.
func TestKeptFailuresAreBounded(t *testing.T) {
	t.Parallel()
	f := newFailures()
	text := strings.Repeat("x", maxFailure)
	f.keep("small", failureKey{}, &failure{Text: "because"})
	for i := range 2 * maxFailures / maxFailure {
		f.keep("large", failureKey{byte(i)}, &failure{Text: text})
		f.keep("large", failureKey{byte(i)}, &failure{Text: text})
	}
	large := f.tenants["large"]
	if f.bytes > maxFailures || f.bytes < maxFailures/2 || f.bytes != large.bytes+f.tenants["small"].bytes ||
		large.kept.Len() != (large.bytes)/(maxFailure+bytelru.Overhead) {
		t.Errorf("%d bytes, %d of them in %d failures of one tenant", f.bytes, large.bytes, large.kept.Len())
	}
	for name, tc := range map[string]struct {
		tenant string
		key    failureKey
		want   bool
	}{
		"of the small tenant":            {"small", failureKey{}, true},
		"the newest of the large tenant": {"large", failureKey{2*maxFailures/maxFailure - 1}, true},
		"the oldest of the large tenant": {"large", failureKey{}, false},
		"of another tenant":              {"none", failureKey{}, false},
	} {
		if _, ok := f.get(tc.tenant, tc.key); ok != tc.want {
			t.Errorf("%s: kept %t, want %t", name, ok, tc.want)
		}
	}
}

// TestExpiredFailuresAreRemoved checks that no failure stays in memory after its time if the renderer is used.
func TestExpiredFailuresAreRemoved(t *testing.T) {
	t.Parallel()
	b := newFailureBench()
	f := b.failures
	f.keep("a", failureKey{1}, &failure{Text: "first"})
	b.clock = b.clock.Add(failureKept / 2)
	f.keep("a", failureKey{2}, &failure{Text: "second"})
	// Neither a read nor the same failure prolongs the time of another.
	f.get("a", failureKey{1})
	b.clock = b.clock.Add(failureKept / 2)
	f.keep("b", failureKey{1}, &failure{Text: "third"})
	_, hasFirst := f.get("a", failureKey{1})
	_, hasSecond := f.get("a", failureKey{2})
	if f.tenants["a"].kept.Len() != 1 || hasFirst || !hasSecond {
		t.Errorf("%d failures of a are kept, want the second one", f.tenants["a"].kept.Len())
	}
	b.clock = b.clock.Add(failureKept)
	f.get("c", failureKey{})
	if len(f.tenants) != 0 || f.bytes != 0 {
		t.Errorf("%d tenants with %d bytes are left", len(f.tenants), f.bytes)
	}
}

// TestNoMemoryIsNoLimitOfChart checks that a rendering that got no memory is handled like a rendering without a child:
// other charts are the cause.
func TestNoMemoryIsNoLimitOfChart(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{sandbox.ErrNoChild, sandbox.ErrNoMemory} {
		if err := limitError(cause); !errors.Is(err, ErrBusy) || errors.Is(err, ErrLimit) {
			t.Errorf("%v: %v", cause, err)
		}
	}
}
