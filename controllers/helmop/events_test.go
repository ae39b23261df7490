// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/resolution"
)

// createdEvents is an API server that keeps the messages of created Events. A repetition of an Event only changes an
// existing Event.
type createdEvents struct {
	mu    sync.Mutex
	notes []string
}

func (c *createdEvents) Create(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes = append(c.notes, event.Note)
	return event, nil
}

func (*createdEvents) Update(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	return event, nil
}

func (*createdEvents) Patch(_ context.Context, event *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	return event, nil
}

// take returns the messages of all Events that were created since the last call.
func (c *createdEvents) take() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	notes := c.notes
	c.notes = nil
	slices.Sort(notes)
	return notes
}

// tagRegistry is a registry with an artifact for each tag.
type tagRegistry struct{}

func (tagRegistry) Resolve(_ context.Context, source oci.Source) (oci.Artifact, error) {
	return oci.Artifact{URL: "oci://registry.example/hello", Tag: source.Ref.Tag, Digest: "sha256:" + source.Ref.Tag,
		ConfigMediaType: bundle.ChartConfigMediaType, Layers: []oci.Layer{{MediaType: bundle.ChartLayerMediaType}}}, nil
}

// TestEventsKeepTheirMessages checks with client-go's broadcaster which Events are created. The broadcaster drops the
// messages of Events that it takes for repetitions.
func TestEventsKeepTheirMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		created := &createdEvents{}
		broadcaster := events.NewBroadcaster(created)
		defer broadcaster.Shutdown()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
			t.Fatal(err)
		}
		scheme := runtime.NewScheme()
		if err := addonsv1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		secrets := controllertest.ClientOf()
		r := &Reconciler{recorder: broadcaster.NewRecorder(scheme, "helmop-controller"),
			resolver: resolution.New(resolution.Options{Registry: tagRegistry{}, Concurrency: 4, Now: time.Now,
				References: references.NewReader(secrets, secrets)})}
		helmOp := controllertest.HelmOpWith(addonsv1.ArtifactSource{Ref: controllertest.Tagged("one")})
		helmOp.Spec.RefsByKubernetesVersion = []addonsv1.KubernetesVersionReference{
			{KubernetesVersion: ">=1.36", Ref: controllertest.Tagged("two")},
			{KubernetesVersion: ">=1.35", Ref: controllertest.Tagged("three")},
		}
		if err := r.resolve(ctx, &helmOpScope{helmOp: helmOp}); err != nil {
			t.Fatal(err)
		}
		const hello = "oci://registry.example/hello:"
		want := []string{hello + "one is sha256:one", "spec.refsByKubernetesVersion[0].ref: " + hello + "two is sha256:two",
			"spec.refsByKubernetesVersion[1].ref: " + hello + "three is sha256:three"}
		if got := created.take(); !slices.Equal(got, want) {
			t.Errorf("three references in one pass: got %q, want %q", got, want)
		}
		begins := func(wave string) {
			r.event(helmOp, corev1.EventTypeNormal, addonsv1.WaveStartedEvent, "Rollout", "wave "+wave+" begins")
		}
		begins("canary")
		created.take()
		for range 5 {
			begins("canary")
		}
		if got := created.take(); len(got) > 0 {
			t.Errorf("repetitions: got %q", got)
		}
		helmOp.ResourceVersion = "2" // The pass wrote the status.
		begins("north")
		if got, want := created.take(), []string{"wave north begins"}; !slices.Equal(got, want) {
			t.Errorf("the next pass: got %q, want %q", got, want)
		}
	})
}
