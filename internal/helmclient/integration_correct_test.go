// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/driftmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drifttracking"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releaseinventory"
)

// editObject changes an object of the release as a person would.
func (b *bench) editObject() error {
	_, err := b.kube.CoreV1().ConfigMaps(b.namespace).Patch(b.t.Context(), "demo-value", types.MergePatchType,
		[]byte(`{"data":{"key":"edited"}}`), metav1.PatchOptions{})
	return err
}

// correctDrift compares and corrects the objects of a release that is in sync, as the manager does after its watches
// have seen that objects were changed or deleted. left are the differences that were not corrected, because the objects
// or the records changed meanwhile.
func (b *bench) correctDrift(desired model.Desired) (left []drift.Difference, err error) {
	ctx := b.t.Context()
	obs, err := b.client.Observe(ctx, b.target, desired.Namespace, desired.Name)
	newest, _ := obs.Newest()
	if err != nil || obs.State(desired) != model.StateInSync {
		return nil, err
	}
	manifest, err := manifestOf(ctx, b.client, b.target, desired.Namespace, desired.Name, newest.Revision)
	if err != nil {
		return nil, err
	}
	release := &addonsv1.HelmOpRelease{Spec: addonsv1.HelmOpReleaseSpec{ReleaseOptions: addonsv1.ReleaseOptions{
		DriftDetection: &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeCorrect}}}}
	snapshot := &objectwatch.Snapshot{Synced: true, Objects: map[inventory.Ref]objectwatch.State{}}
	refs := make([]inventory.Ref, 0, len(manifest))
	for _, object := range manifest {
		refs = append(refs, inventory.Of(object))
		snapshot.Objects[inventory.Of(object)] = objectwatch.State{}
	}
	release.Status.Inventory = releaseinventory.Of(&release.Spec, refs, newest.Revision)
	// The clock stands still, so the pass relies on a read of the records as long as possible.
	now := time.Now()
	pass := &drifttracking.Pass{
		Release: release, Memory: &driftmemory.Memory{}, Snapshot: snapshot, Target: b.target, Desired: desired,
		Newest: newest, IsCorrecting: true, Engine: b.client, Now: func() time.Time { return now },
		Acquire:  func() (done func(), ok bool) { return func() {}, true },
		MayBegin: func(context.Context) (bool, error) { return true, nil },
	}
	pass.Compare(ctx)
	_, hasFailed := pass.Correct(ctx)
	if hasFailed || len(pass.Memory.Uncompared) > 0 {
		return nil, fmt.Errorf("not compared: %s; not corrected: %s", pass.Memory.Uncompared, pass.Memory.Uncorrected)
	}
	return pass.Memory.Differences(), nil
}

// correctionCase is a correction of drift, during which another HelmOp, with its own manager, adopts and upgrades the
// release.
type correctionCase struct {
	// drift changes or deletes objects of the release.
	drift func(b *bench) error
	// next are the templates of the other HelmOp.
	next map[string]string
	// isLast reports whether a request is the last one of the correction of an object. It is too late for another check
	// then.
	isLast func(req *http.Request) bool
	// corrected checks the objects after a correction without another HelmOp, and taken with another HelmOp.
	corrected, taken func(b *bench)
}

// run makes the other HelmOp act before the request at of the correction, or not at all if at is negative. It returns
// the number of requests, without those of isLast.
func (c *correctionCase) run(t *testing.T, at int) (requests int) {
	t.Helper()
	one := &bench{t: t, kube: newKube(t), namespace: namespaceOf(t)}
	one.reconnect(-1)
	other := &bench{t: t, kube: one.kube, namespace: one.namespace}
	other.reconnect(-1)
	former := helmtest.DesiredFor(one.namespace, "demo", "a1", "v1")
	next := &party{bench: other, desired: former, adopts: true, value: "next"}
	next.desired.Owner, next.desired.UID, next.desired.ValuesDigest = "default.next", "uid-next", "v2"
	one.converge(former, helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "former"})
	if err := c.drift(one); err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	config := sharedServer.Server(t).RESTConfig()
	config.WrapTransport = func(base http.RoundTripper) http.RoundTripper {
		return helmtest.RoundTripperFunc(func(req *http.Request) (*http.Response, error) {
			if strings.Contains(req.URL.Path, "/namespaces/"+one.namespace) && !c.isLast(req) &&
				int(sent.Add(1))-1 == at {
				if _, err := next.act(next.decide(), next.desired, helmtest.NewChart("1.0.0", c.next),
					map[string]any{"cidr": next.value}); err != nil {
					t.Errorf("at request %d: the other HelmOp: %v", at, err)
				}
			}
			return base.RoundTrip(req)
		})
	}
	one.client, one.target.Config = New(testRunner), config
	left, err := one.correctDrift(former)
	if err != nil {
		t.Errorf("at request %d: the correction: %v", at, err)
	}
	if at >= 0 {
		c.taken(one)
		return int(sent.Load())
	}
	if c.corrected(one); len(left) > 0 {
		t.Errorf("not corrected: %s", drifttracking.List(left))
	}
	return int(sent.Load())
}

// TestIntegrationCorrectionDuringHandOver makes another HelmOp adopt and upgrade a release before any request of a
// correction of drift. In the end, the objects have the content of the other HelmOp. Objects that its chart no longer
// has do not exist.
func TestIntegrationCorrectionDuringHandOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]correctionCase{
		"an object was edited": {
			drift: (*bench).editObject, next: helmtest.TwoConfigMaps(),
			isLast:    func(*http.Request) bool { return false },
			corrected: func(b *bench) { b.wantConfigMap("demo-value", "former") },
			taken:     func(b *bench) { b.wantConfigMap("demo-value", "next") },
		},
		// The edited object is the first in the manifest, so its correction precedes the creation of the other object.
		"an object was edited, and another one was deleted": {
			drift: func(b *bench) error {
				b.patchConfigMap("first", `{"data":{"key":"edited"}}`)
				return b.kube.CoreV1().ConfigMaps(b.namespace).Delete(b.t.Context(), "demo-value", metav1.DeleteOptions{})
			},
			next: map[string]string{"first.yaml": helmtest.ConfigMap("first", "next")},
			isLast: func(req *http.Request) bool {
				return req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/configmaps")
			},
			corrected: func(b *bench) {
				b.wantConfigMap("first", "1")
				b.wantConfigMap("demo-value", "former")
			},
			taken: func(b *bench) {
				b.wantConfigMap("first", "next")
				b.wantNoConfigMap("demo-value")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := c.run(t, -1)
			if requests < 5 {
				t.Fatalf("the correction sent %d requests", requests)
			}
			for at := range requests {
				if c.run(t, at); t.Failed() {
					t.Fatalf("failed at request %d of %d", at, requests)
				}
			}
		})
	}
}

// TestIntegrationConfirm checks which changes of the records stop a correction, and that a correction and an action
// exclude each other.
func TestIntegrationConfirm(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	chrt := helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps())
	b.converge(desired, chrt, map[string]any{"cidr": "1"})
	newest, _ := b.observe(desired).Newest()
	if err := b.client.Confirm(t.Context(), b.target, desired, newest); err != nil {
		t.Errorf("nothing changed: %v", err)
	}
	b.labelRecord("backup", "yes")
	if err := b.client.Confirm(t.Context(), b.target, desired, newest); err != nil {
		t.Errorf("another program set a label: %v", err)
	}
	for i, label := range []string{model.LabelReleaseUID, model.LabelManagementCluster, model.LabelOwner,
		model.HelmLabelStatus} {
		before, _ := b.observe(desired).Newest()
		b.labelRecord(label, fmt.Sprintf("other-%d", i))
		if err := b.client.Confirm(t.Context(), b.target, desired, before); !errors.Is(err, helmerr.ErrStale) {
			t.Errorf("after a change of the label %s: %v", label, err)
		}
	}
	unlock, err := b.client.Lock(b.target, desired)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.act(decide.Decision{Action: model.ActionTest}, desired, chrt, nil); !errors.Is(err, helmerr.ErrStale) {
		t.Errorf("an action during a correction: %v", err)
	}
	if _, err := b.client.Lock(b.target, desired); !errors.Is(err, helmerr.ErrStale) {
		t.Errorf("a second correction: %v", err)
	}
	unlock()
	if unlock, err = b.client.Lock(b.target, desired); err != nil {
		t.Fatal(err)
	}
	unlock()
}
