// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// editObject changes an object of the release as a person would.
func (b *bench) editObject() error {
	_, err := b.kube.CoreV1().ConfigMaps(b.namespace).Patch(b.t.Context(), "demo-value", types.MergePatchType,
		[]byte(`{"data":{"key":"edited"}}`), metav1.PatchOptions{})
	return err
}

// correctDrift corrects the objects of a release that is in sync, as package drifttracking does.
func (b *bench) correctDrift(desired model.Desired) error {
	ctx := b.t.Context()
	obs, err := b.client.Observe(ctx, b.target, desired.Namespace, desired.Name)
	newest, _ := obs.Newest()
	if err != nil || obs.State(desired) != model.StateInSync {
		return err
	}
	manifest, err := b.client.Manifest(ctx, b.target, desired.Namespace, desired.Name, newest.Revision)
	if err != nil {
		return err
	}
	access, err := b.client.Access(b.target)
	if err != nil {
		return err
	}
	cluster := drift.Cluster{Config: access.Config, Mapper: access.Mapper}
	release := drift.Release{Namespace: desired.Namespace, Name: desired.Name}
	found, err := drift.Compare(ctx, cluster, release, nil, manifest)
	if err != nil {
		return err
	}
	unlock, err := b.client.Lock(b.target, desired)
	if err != nil {
		return err
	}
	defer unlock()
	for _, difference := range found.Differences {
		if err := b.client.Confirm(ctx, b.target, desired, newest); err != nil {
			return err
		}
		if err := drift.Correct(ctx, cluster, difference); err != nil {
			return err
		}
	}
	return nil
}

// TestIntegrationCorrectionDuringHandOver makes another HelmOp, with its own manager, adopt and upgrade a release
// before any request of a correction of drift. In the end, the objects have the content of the other HelmOp.
func TestIntegrationCorrectionDuringHandOver(t *testing.T) {
	t.Parallel()
	for at, requests := -1, 1; at < requests; at++ {
		one := &bench{t: t, kube: newKube(t), namespace: namespaceOf(t)}
		one.reconnect(-1)
		other := &bench{t: t, kube: one.kube, namespace: one.namespace}
		other.reconnect(-1)
		former := helmtest.DesiredFor(one.namespace, "demo", "a1", "v1")
		next := &party{bench: other, desired: former, adopts: true, value: "next"}
		next.desired.Owner, next.desired.UID, next.desired.ValuesDigest = "default.next", "uid-next", "v2"
		one.converge(former, helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "former"})
		if err := one.editObject(); err != nil {
			t.Fatal(err)
		}
		var sent atomic.Int64
		config := sharedServer.Server(t).RESTConfig()
		config.WrapTransport = func(base http.RoundTripper) http.RoundTripper {
			return helmtest.RoundTripperFunc(func(req *http.Request) (*http.Response, error) {
				if strings.Contains(req.URL.Path, "/namespaces/"+one.namespace) && int(sent.Add(1))-1 == at {
					if err := next.carryOut(next.decide()); err != nil {
						t.Errorf("at request %d: the other HelmOp: %v", at, err)
					}
				}
				return base.RoundTrip(req)
			})
		}
		one.client, one.target.Config = New(testRunner), config
		err := one.correctDrift(former)
		if at < 0 {
			// Nothing happens meanwhile. This run shows the number of requests.
			if requests = int(sent.Load()); err != nil || requests < 5 {
				t.Fatalf("the correction sent %d requests: %v", requests, err)
			}
			one.wantConfigMap("demo-value", "former")
			continue
		}
		if err != nil && !errors.Is(err, helmerr.ErrStale) && !apierrors.IsConflict(err) {
			t.Errorf("at request %d: the correction: %v", at, err)
		}
		if value, _ := one.configMapValue("demo-value"); value != next.value {
			t.Errorf("at request %d, the other HelmOp upgraded the release, but the object holds %q", at, value)
		}
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
