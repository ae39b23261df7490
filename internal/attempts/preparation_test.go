// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package attempts

import (
	"testing"
	"time"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

// TestInterruptedPreparation checks that a manager that finds a preparation of a former manager waits, and that the
// delay grows. Another artifact or a new retry request does not wait.
func TestInterruptedPreparation(t *testing.T) {
	t.Parallel()
	now := controllertest.Noon
	s := triedSubject()
	s.Release.Spec.Artifact.Digest = "sha256:a"
	var wait time.Duration
	for stop := range 5 {
		var manager Preparation
		if at := manager.NextAt(s); at.IsZero() != (stop == 0) || stop > 0 && at.Sub(now) <= wait {
			t.Fatalf("stop %d: the next preparation is at %s, %s after the last", stop, at, at.Sub(now))
		} else if stop > 0 {
			wait = at.Sub(now)
			now = at
		}
		if !manager.Begin(s, now) || s.Release.Status.Preparation.Count != int32(stop+1) {
			t.Fatalf("stop %d: %+v", stop, s.Release.Status.Preparation)
		}
		if manager.Begin(s, now) || !manager.NextAt(s).IsZero() {
			t.Errorf("stop %d: the same manager writes twice, or waits for itself", stop)
		}
	}
	for name, change := range map[string]func(*addonsv1.HelmOpRelease){
		"another artifact": func(r *addonsv1.HelmOpRelease) { r.Spec.Artifact.Digest = "sha256:b" },
		"a retry request": func(r *addonsv1.HelmOpRelease) {
			r.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: "now"}
		},
	} {
		other := &Subject{Release: s.Release.DeepCopy(), HelmOp: s.HelmOp}
		change(other.Release)
		var manager Preparation
		if !manager.NextAt(other).IsZero() || !manager.Begin(other, now) || other.Release.Status.Preparation.Count != 1 {
			t.Errorf("%s: %+v", name, other.Release.Status.Preparation)
		}
	}
}

// TestPreparationIsWrittenAgain checks that a preparation is written again after its end, and after the status was
// lost.
func TestPreparationIsWrittenAgain(t *testing.T) {
	t.Parallel()
	s := triedSubject()
	var p Preparation
	for _, step := range []struct {
		name   string
		change func()
	}{
		{"at first", func() {}},
		{"after the end", func() { p.End(&s.Release.Status) }},
		{"after the status was lost", func() { s.Release.Status = addonsv1.HelmOpReleaseStatus{} }},
		{"another artifact", func() { s.Release.Spec.Artifact.Digest = "sha256:b" }},
	} {
		step.change()
		if !p.Begin(s, controllertest.Noon) || s.Release.Status.Preparation.Count != 1 {
			t.Errorf("%s: %+v", step.name, s.Release.Status.Preparation)
		}
	}
}
