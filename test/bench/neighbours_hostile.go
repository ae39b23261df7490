// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/world"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/hostile"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

const (
	hostileNamespace = "hostile"

	// answeringGroup and hangingGroup are the groups of the Clusters of the hostile tenant.
	answeringGroup, hangingGroup = "hostile", "hanging"

	// hostileCA is the name of the Secret with the certificate authority of the hostile registry.
	hostileCA = "hostile-ca"

	// failure is the error of the chart that fails.
	failure = "hostile by intention"

	// hostilePatience is the timeout for waits for the hostile tenant.
	hostilePatience = 5 * time.Minute
)

// hostility is one kind of hostile tenant.
type hostility struct {
	name string
	// helmOps are created at once.
	helmOps func(*hostileTenant) []*addonsv1.HelmOp
	// hangs makes the API server of the Clusters of hangingGroup hang.
	hangs bool
	// acts reports whether the hostility has begun. Default: each HelmOp has a release.
	acts func(*hostileTenant) bool
}

// hostilities are the kinds, in the order in which they are measured.
func hostilities() []hostility {
	return []hostility{
		{name: "endless templates", helmOps: func(t *hostileTenant) []*addonsv1.HelmOp {
			return append(t.charts(3, "loops", "memory", "list"), t.charts(1, "schema")...)
		}},
		{name: "huge schemas and values", helmOps: func(t *hostileTenant) []*addonsv1.HelmOp {
			all := t.charts(8, "schema")
			for _, helmOp := range all[4:] {
				helmOp.Spec.Values = &apiextensionsv1.JSON{Raw: []byte(`{"large":"` + strings.Repeat("x", 500_000) + `"}`)}
			}
			return all
		}},
		{name: "growing kustomizations", helmOps: func(t *hostileTenant) []*addonsv1.HelmOp {
			return t.charts(6, "kustomization")
		}},
		{name: "a slow and a silent registry", helmOps: (*hostileTenant).fromHostileRegistry,
			acts: func(t *hostileTenant) bool { return t.registry.Counts().Total() > 0 }},
		{name: "an API server that hangs", hangs: true, helmOps: func(t *hostileTenant) []*addonsv1.HelmOp {
			all := t.charts(20, "failing")
			for _, helmOp := range all {
				helmOp.Spec.ClusterSelector.MatchLabels[world.GroupLabel] = hangingGroup
			}
			return all
		}},
		{name: "100 HelmOps that fail", helmOps: func(t *hostileTenant) []*addonsv1.HelmOp {
			return t.charts(100, "failing")
		}, acts: func(t *hostileTenant) bool {
			return t.world.Tracker.Count(hostileNamespace, hasFailed) >= len(t.helmOps)
		}},
	}
}

func hasFailed(r world.Release) bool { return strings.Contains(r.Message, failure) }

// hostileTenant has a namespace, Clusters, hostile artifacts in the registry that all tenants use, and its own
// registry.
type hostileTenant struct {
	*bench
	registry *registry.Registry
	relay    *world.Relay
	helmOps  []*addonsv1.HelmOp
}

func startHostileTenant(ctx context.Context, b *bench, dir string) (*hostileTenant, error) {
	t := &hostileTenant{bench: b}
	err := t.start(ctx, dir)
	if err != nil {
		return nil, errors.Join(err, t.stop(context.WithoutCancel(ctx)))
	}
	return t, nil
}

func (t *hostileTenant) start(ctx context.Context, dir string) error {
	if err := t.push(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var err error
	t.registry, err = registry.Start(ctx, registry.Options{Dir: dir, Implementation: registry.InProcess,
		Auth: registry.AuthNone})
	if err != nil {
		return err
	}
	// The chart is in no other registry. Otherwise, the manager would have it in its store, and render it at once.
	_, err = t.registry.PushChart(ctx, "slow", hostile.Version, registry.ChartFiles(map[string]string{
		"Chart.yaml":              "apiVersion: v2\nname: slow\nversion: " + hostile.Version + "\n",
		"templates/harmless.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: harmless}\n",
	}))
	if err != nil {
		return err
	}
	for mode, repository := range map[registry.Mode]string{registry.Hang: "silent", registry.Drip: "slow"} {
		fault := registry.Fault{Mode: mode, Pause: time.Second, Match: registry.In(repository)}
		if _, err := t.registry.Fail(fault); err != nil {
			return err
		}
	}
	return t.createClusters(ctx)
}

// push pushes the artifacts.
func (t *hostileTenant) push(ctx context.Context) error {
	own := t.world.Env.Registry
	for _, chart := range hostile.Charts() {
		if _, err := own.PushChart(ctx, "hostile/"+chart.Name, hostile.Version, chart.Files()); err != nil {
			return err
		}
	}
	_, err := own.PushChart(ctx, "hostile/failing", hostile.Version, registry.ChartFiles(map[string]string{
		"Chart.yaml":         "apiVersion: v2\nname: failing\nversion: " + hostile.Version + "\n",
		"templates/bad.yaml": `{{ range until 20000 }}{{ sha256sum "x" | trunc 0 }}{{ end }}{{ fail "` + failure + `" }}`,
	}))
	if err != nil {
		return err
	}
	artifact, err := hostile.Kustomization()
	if err != nil {
		return err
	}
	_, err = own.PushRaw(ctx, "hostile/kustomization", hostile.Version, artifact)
	return err
}

func (t *hostileTenant) createClusters(ctx context.Context) error {
	if err := t.world.CreateNamespace(ctx, hostileNamespace); err != nil {
		return err
	}
	if err := t.world.Env.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: hostileNamespace, Name: hostileCA},
		Data:       map[string][]byte{"ca.crt": t.registry.CA()},
	}); err != nil {
		return err
	}
	hangs := t.world.Group(hostileNamespace, hangingGroup, 1)
	var err error
	if t.relay, err = relayTo(hangs[0]); err != nil {
		return err
	}
	hangs[0].Relay = t.relay
	return t.world.CreateClusters(ctx, append(hangs, t.world.Group(hostileNamespace, answeringGroup, 1)...))
}

func (t *hostileTenant) stop(ctx context.Context) error {
	var errs []error
	if t.relay != nil {
		errs = append(errs, t.relay.Stop())
	}
	if t.registry != nil {
		errs = append(errs, t.registry.Stop(ctx))
	}
	return errors.Join(errs...)
}

// charts returns n HelmOps for each of some hostile artifacts.
func (t *hostileTenant) charts(n int, names ...string) []*addonsv1.HelmOp {
	var all []*addonsv1.HelmOp
	for i := range n {
		for _, name := range names {
			source := t.world.Env.Source("hostile/"+name, addonsv1.ArtifactReference{Tag: hostile.Version})
			all = append(all, hostileHelmOp(fmt.Sprintf("%s-%d", name, i), source))
		}
	}
	return all
}

// fromHostileRegistry returns HelmOps with sources in the tenant's own registry.
func (t *hostileTenant) fromHostileRegistry() []*addonsv1.HelmOp {
	var all []*addonsv1.HelmOp
	for i := range 40 {
		repository := []string{"silent", "slow"}[i%2]
		all = append(all, hostileHelmOp(fmt.Sprintf("%s-%d", repository, i), addonsv1.ArtifactSource{
			URL: "oci://" + t.registry.Host() + "/" + repository, Ref: addonsv1.ArtifactReference{Tag: hostile.Version},
			CertSecretRef: &addonsv1.SecretReference{Name: hostileCA},
		}))
	}
	return all
}

func hostileHelmOp(name string, source addonsv1.ArtifactSource) *addonsv1.HelmOp {
	return &addonsv1.HelmOp{
		ObjectMeta: metav1.ObjectMeta{Namespace: hostileNamespace, Name: name},
		Spec: addonsv1.HelmOpSpec{
			ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{world.GroupLabel: answeringGroup}},
			Source:          source,
			DeletionPolicy:  addonsv1.DeletionPolicyOrphan,
		},
	}
}

// begin starts one kind of hostility, and returns when it acts.
func (t *hostileTenant) begin(ctx context.Context, kind hostility) error {
	if kind.hangs {
		if err := t.relay.Set(world.Hang); err != nil {
			return err
		}
	}
	t.registry.ResetCounts()
	t.helmOps = kind.helmOps(t)
	for _, helmOp := range t.helmOps {
		if err := t.world.Env.Client.Create(ctx, helmOp); err != nil {
			return err
		}
	}
	acts := kind.acts
	if acts == nil {
		acts = func(t *hostileTenant) bool {
			return t.world.Tracker.Count(hostileNamespace, anyRelease) >= len(t.helmOps)
		}
	}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, hostilePatience, true,
		func(context.Context) (bool, error) { return acts(t), nil })
}

// end ends the hostility, and waits until nothing is left of it.
func (t *hostileTenant) end(ctx context.Context) error {
	if err := t.relay.Set(world.Pass); err != nil {
		return err
	}
	for _, helmOp := range t.helmOps {
		if err := t.world.Env.Client.Delete(ctx, helmOp); err != nil {
			return err
		}
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, hostilePatience, true,
		func(ctx context.Context) (bool, error) {
			left := &addonsv1.HelmOpList{}
			err := t.world.Env.Client.List(ctx, left, client.InNamespace(hostileNamespace))
			return len(left.Items) == 0, err
		})
}
