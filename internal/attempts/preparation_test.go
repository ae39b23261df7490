// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package attempts

import (
	"testing"
	"time"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// preparedSubject returns a release that is prepared.
func preparedSubject() *Subject {
	s := triedSubject()
	s.Release.Spec.Artifact.Digest = "sha256:a"
	return s
}

// begin begins a preparation and stores it. It reports whether the caller must write the status.
func begin(p *Preparation, s *Subject, now time.Time) bool {
	begun := p.Begin(s, &s.Release.Status, now)
	if begun != nil {
		s.Release.Status.Preparation = begun
	}
	return begun != nil
}

// TestInterruptedPreparation checks that a manager that finds a preparation of a former manager waits, and that the
// delay grows. A change of the desired state and a new retry request do not wait.
func TestInterruptedPreparation(t *testing.T) {
	t.Parallel()
	now := controllertest.Noon
	s := preparedSubject()
	var wait time.Duration
	for stop := range 5 {
		var manager Preparation
		if at := manager.NextAt(s, model.Record{}, now); at.IsZero() != (stop == 0) || stop > 0 && at.Sub(now) <= wait {
			t.Fatalf("stop %d: the next preparation is at %s, %s after the last", stop, at, at.Sub(now))
		} else if stop > 0 {
			wait = at.Sub(now)
			now = at
		}
		if !begin(&manager, s, now) || s.Release.Status.Preparation.Count != int32(stop+1) {
			t.Fatalf("stop %d: %+v", stop, s.Release.Status.Preparation)
		}
		if begin(&manager, s, now) || !manager.NextAt(s, model.Record{}, now).IsZero() {
			t.Errorf("stop %d: the same manager writes twice, or waits for itself", stop)
		}
		// The release waits for a slot between the parsing and the rendering. Both belong to the same preparation.
		manager.Pause(&s.Release.Status)
		if !begin(&manager, s, now) || s.Release.Status.Preparation.Count != int32(stop+1) {
			t.Fatalf("stop %d, after a pause: %+v", stop, s.Release.Status.Preparation)
		}
	}
	for name, change := range map[string]func(*Subject){
		"another artifact": func(s *Subject) { s.Release.Spec.Artifact.Digest = "sha256:b" },
		"other values":     func(s *Subject) { s.Desired.ValuesDigest = "b" },
		"other options":    func(s *Subject) { s.Desired.OptionsDigest = "b" },
		"another shard":    func(s *Subject) { s.Release.Labels = map[string]string{addonsv1.ShardLabel: "b"} },
		"a retry request": func(s *Subject) {
			s.Release.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: "now"}
		},
	} {
		other := &Subject{Release: s.Release.DeepCopy(), HelmOp: s.HelmOp, Desired: s.Desired}
		change(other)
		var manager Preparation
		if !manager.NextAt(other, model.Record{}, now).IsZero() || !begin(&manager, other, now) ||
			other.Release.Status.Preparation.Count != 1 {
			t.Errorf("%s: %+v", name, other.Release.Status.Preparation)
		}
	}
}

// TestPauseOfOwnPreparation checks that a release that waits for something else keeps only the preparation that a
// former manager did not end.
func TestPauseOfOwnPreparation(t *testing.T) {
	t.Parallel()
	s := preparedSubject()
	var former, current Preparation
	begin(&former, s, controllertest.Noon)
	if current.PauseOwn(&s.Release.Status); s.Release.Status.Preparation == nil {
		t.Error("the preparation of the former manager is lost")
	}
	if former.PauseOwn(&s.Release.Status); s.Release.Status.Preparation != nil {
		t.Error("the own preparation stays")
	}
	former.PauseOwn(&s.Release.Status)
}

// TestPreparationEndsWithRecord checks the stop of a manager after the rendering: Helm's record of the action shows
// that the preparation had ended.
func TestPreparationEndsWithRecord(t *testing.T) {
	t.Parallel()
	now := controllertest.Noon
	s := preparedSubject()
	s.Desired = helmtest.Desired()
	begin(&Preparation{}, s, now.Add(700*time.Millisecond))
	record := helmtest.Record("pending-upgrade", 2, func(r *model.Record) { r.ChangedAt = now })
	for name, tc := range map[string]struct {
		change func(*model.Record)
		waits  bool
	}{
		"the record of the action": {change: func(*model.Record) {}},
		"an older record":          {func(r *model.Record) { r.ChangedAt = now.Add(-time.Second) }, true},
		"other values":             {func(r *model.Record) { r.ValuesDigest = "old" }, true},
		"a record that was repaired before the rendering": {func(r *model.Record) { r.Status = "failed" }, true},
	} {
		newest := record
		tc.change(&newest)
		if at := (&Preparation{}).NextAt(s, newest, now.Add(time.Second)); at.IsZero() == tc.waits {
			t.Errorf("%s: the next preparation is at %s", name, at)
		}
	}
}

// TestPreparationIsWrittenAgain checks that a preparation is written again after its end, and after the status was
// lost.
func TestPreparationIsWrittenAgain(t *testing.T) {
	t.Parallel()
	s := preparedSubject()
	var p Preparation
	for _, step := range []struct {
		name   string
		change func()
	}{
		{"at first", func() {}},
		{"after the end", func() { p.End(&s.Release.Status) }},
		{"after the status was lost", func() { s.Release.Status = addonsv1.HelmOpReleaseStatus{} }},
		{"another artifact", func() { s.Release.Spec.Artifact.Digest = "sha256:b" }},
		{"after the end, whose write failed", func() { p.End(&addonsv1.HelmOpReleaseStatus{}) }},
	} {
		step.change()
		if !p.NextAt(s, model.Record{}, controllertest.Noon).IsZero() || !begin(&p, s, controllertest.Noon) ||
			s.Release.Status.Preparation.Count != 1 {
			t.Errorf("%s: %+v", step.name, s.Release.Status.Preparation)
		}
	}
}

// TestLostPreparation checks a preparation whose write failed: it must be written again with the same count.
func TestLostPreparation(t *testing.T) {
	t.Parallel()
	s := preparedSubject()
	begin(&Preparation{}, s, controllertest.Noon)
	var next Preparation
	for range 2 {
		if begun := next.Begin(s, &s.Release.Status, controllertest.Noon); begun == nil || begun.Count != 2 {
			t.Errorf("got %+v, want the count 2", begun)
		}
	}
}

// TestFailedFetch checks that a restart after a failed fetch does not wait, and that retries of the same manager need
// no write until the chart is rendered.
func TestFailedFetch(t *testing.T) {
	t.Parallel()
	s := preparedSubject()
	var p Preparation
	begin(&p, s, controllertest.Noon)
	p.FetchFailed(s)
	if s.Release.Status.Preparation != nil || !p.IsRefetched(s) {
		t.Errorf("status %+v, refetched %t", s.Release.Status.Preparation, p.IsRefetched(s))
	}
	if at := (&Preparation{}).NextAt(s, model.Record{}, controllertest.Noon); !at.IsZero() {
		t.Errorf("the next manager waits until %s", at)
	}
	other := preparedSubject()
	other.Release.Spec.Artifact.Digest = "sha256:b"
	if p.IsRefetched(other) {
		t.Error("the fetch of another artifact has not failed")
	}
	if !begin(&p, s, controllertest.Noon) || p.IsRefetched(s) {
		t.Errorf("the rendering is not written: %+v", s.Release.Status.Preparation)
	}
}

// TestPreparationOfFastClock checks that a preparation that a manager with a fast clock began does not delay the
// release by the difference of the clocks.
func TestPreparationOfFastClock(t *testing.T) {
	t.Parallel()
	for ahead, waits := range map[time.Duration]bool{-time.Second: true, 0: true, 3 * time.Hour: false} {
		s := preparedSubject()
		begin(&Preparation{}, s, controllertest.Noon.Add(ahead))
		if at := (&Preparation{}).NextAt(s, model.Record{}, controllertest.Noon); at.IsZero() == waits {
			t.Errorf("%s ahead: the next preparation is at %s", ahead, at)
		}
	}
}
