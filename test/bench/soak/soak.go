// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/measure"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

const (
	namespace = "soak"

	// allName is the HelmOp for all Clusters.
	allName = "all"

	// quarters is the number of parts of the fleet that have their own HelmOp, in addition to the HelmOp for all.
	quarters = 4

	// patience is the timeout of every wait.
	patience = 15 * time.Minute

	// outage is how long an API server is down or hangs.
	outage = 20 * time.Second

	partLabel = "part"

	// spoiledKey and spoiledValue are a manual change.
	spoiledKey, spoiledValue = "region", "changed by hand"
)

// soak is one run of this command.
type soak struct {
	settings
	env     *environment.Environment
	manager *measure.Diagnostics
	began   time.Time
	dice    *rand.Rand

	// present are the Clusters that should exist. made is the number of Clusters ever created.
	present map[string]bool
	made    int
	// spoiled are the present Clusters with a manual change that has not been observed as corrected.
	spoiled map[string]bool
	// happened counts the changes by kind.
	happened map[string]int
	samples  []sample
}

func newSoak(s settings, env *environment.Environment, manager *measure.Diagnostics) *soak {
	//nolint:gosec // The random numbers need no security.
	dice := rand.New(rand.NewPCG(s.seed, 0))
	return &soak{settings: s, env: env, manager: manager, began: time.Now(), dice: dice, present: map[string]bool{},
		spoiled: map[string]bool{}, happened: map[string]int{}}
}

func (s *soak) log(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%5.0f s: %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

func (s *soak) run(ctx context.Context) error {
	if err := s.build(ctx); err != nil {
		return err
	}
	if err := s.fill(ctx); err != nil {
		return err
	}
	first, err := s.atRest(ctx, "first")
	if err != nil {
		return err
	}
	if err := s.churn(ctx); err != nil {
		return err
	}
	last, err := s.atRest(ctx, "last")
	if err != nil {
		return err
	}
	return s.report(first, last)
}

// build creates the fleet.
func (s *soak) build(ctx context.Context) error {
	obj := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := s.env.Client.Create(ctx, obj); err != nil {
		return err
	}
	if err := s.env.CreateRegistrySecrets(ctx, namespace); err != nil {
		return err
	}
	for i := range s.hosts {
		options := testbed.ClusterOptions{Namespace: namespace, Name: hostName(i)}
		if _, err := s.env.Management.CreateCluster(ctx, options); err != nil {
			return err
		}
		if err := s.env.Management.WaitClusterAvailable(ctx,
			client.ObjectKey{Namespace: namespace, Name: options.Name}); err != nil {
			return err
		}
	}
	for i := range quarters {
		if err := s.env.Client.Create(ctx, s.helmOp(partName(i), map[string]string{partLabel: partName(i)})); err != nil {
			return err
		}
	}
	all := s.helmOp(allName, map[string]string{"fleet": namespace})
	all.Spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeCorrect}
	if err := s.env.Client.Create(ctx, all); err != nil {
		return err
	}
	for range s.clusters {
		if err := s.add(ctx); err != nil {
			return err
		}
	}
	s.log("%d Clusters were created", s.clusters)
	return nil
}

// fill changes all releases until their histories have reached their full length. After this, the data kept for a
// release no longer grows.
func (s *soak) fill(ctx context.Context) error {
	for i := range s.history {
		if err := s.converge(ctx); err != nil {
			return err
		}
		s.log("%d of %d revisions of all releases", i+1, s.history)
		for _, name := range s.helmOps() {
			if err := s.change(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// helmOps returns the names of all HelmOps.
func (s *soak) helmOps() []string {
	names := []string{allName}
	for i := range quarters {
		names = append(names, partName(i))
	}
	return names
}

func hostName(i int) string { return fmt.Sprintf("host-%d", i) }

func partName(i int) string { return fmt.Sprintf("part-%d", i) }

// helmOp returns a HelmOp whose release has a separate namespace for each Cluster. Health checks are off, because
// nothing runs the Pods.
func (s *soak) helmOp(name string, selector map[string]string) *addonsv1.HelmOp {
	return &addonsv1.HelmOp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: addonsv1.HelmOpSpec{
			ClusterSelector: &metav1.LabelSelector{MatchLabels: selector},
			Source:          s.env.Source("charts/"+environment.ChartHello, addonsv1.ArtifactReference{Tag: "1.0.0"}),
			Release:         addonsv1.ReleaseTemplate{Namespace: "{{ .Cluster.metadata.name }}"},
			Values:          values(0),
			ReleaseOptions:  addonsv1.ReleaseOptions{Health: &addonsv1.HealthOptions{Mode: addonsv1.HealthModeDisabled}},
		},
	}
}

func values(n int) *apiextensionsv1.JSON {
	return &apiextensionsv1.JSON{Raw: fmt.Appendf(nil,
		`{"cluster":"{{ .Cluster.metadata.name }}","podCIDR":"10.1.0.0/16","greeting":"hello %d"}`, n)}
}

// add creates a Cluster.
func (s *soak) add(ctx context.Context) error {
	name := fmt.Sprintf("c%d", s.made)
	_, err := s.env.Management.CreateCluster(ctx, testbed.ClusterOptions{
		Namespace: namespace, Name: name, Host: hostName(s.made % s.hosts), PodCIDRs: []string{"10.1.0.0/16"},
		Labels: map[string]string{"fleet": namespace, partLabel: partName(s.made % quarters)},
	})
	s.made++
	s.present[name] = true
	return err
}

// atRest waits until all objects are in the desired state, waits for a while longer, and measures the manager.
func (s *soak) atRest(ctx context.Context, which string) (sample, error) {
	s.log("waiting until all objects are in the desired state")
	if err := s.converge(ctx); err != nil {
		return sample{}, err
	}
	s.log("all objects are in the desired state")
	var best sample
	for until := time.Now().Add(s.rest); ; {
		now, err := s.measure(ctx)
		if err != nil {
			return sample{}, err
		}
		if best.at.IsZero() || now.heap < best.heap {
			best = now
		}
		if time.Now().After(until) {
			return best, s.profile(ctx, which)
		}
		if err := pause(ctx, s.rest/4); err != nil {
			return sample{}, err
		}
	}
}

// converge waits until all objects are in the desired state.
func (s *soak) converge(ctx context.Context) error {
	missing := ""
	err := wait.PollUntilContextTimeout(ctx, time.Second, patience, true, func(ctx context.Context) (bool, error) {
		var err error
		if missing, err = s.missing(ctx); err != nil {
			// A restarted API server may fail at first, which must not end a run of half an hour.
			missing = err.Error()
		}
		return missing == "", nil
	})
	if err != nil {
		return fmt.Errorf("not all objects are in the desired state: %s: %w", missing, err)
	}
	return nil
}

// missing names an object that is not in the desired state. It is empty if all are.
func (s *soak) missing(ctx context.Context) (string, error) {
	helmOps := &addonsv1.HelmOpList{}
	if err := s.env.Client.List(ctx, helmOps, client.InNamespace(namespace)); err != nil {
		return "", err
	}
	desired := 0
	for i := range helmOps.Items {
		helmOp := &helmOps.Items[i]
		selected := s.selected(helmOp.Name)
		desired += selected
		counts := helmOp.Status.Clusters
		if helmOp.Status.ObservedGeneration != helmOp.Generation || !conditions.IsTrue(helmOp, addonsv1.ReadyCondition) ||
			counts == nil ||
			int(counts.Ready) != selected || counts.UpToDate != counts.Ready {
			return fmt.Sprintf("HelmOp %s of %d Clusters: %+v", helmOp.Name, selected, counts), nil
		}
	}
	releases := &addonsv1.HelmOpReleaseList{}
	if err := s.env.Client.List(ctx, releases, client.InNamespace(namespace)); err != nil {
		return "", err
	}
	if len(releases.Items) != desired {
		return fmt.Sprintf("%d releases, want %d", len(releases.Items), desired), nil
	}
	clusters := &clusterv1.ClusterList{}
	if err := s.env.Client.List(ctx, clusters, client.InNamespace(namespace),
		client.MatchingLabels{"fleet": namespace}); err != nil {
		return "", err
	}
	if len(clusters.Items) != len(s.present) {
		return fmt.Sprintf("%d Clusters, want %d", len(clusters.Items), len(s.present)), nil
	}
	return s.uncorrected(ctx)
}

// uncorrected names a Cluster with a manual change that is not corrected.
func (s *soak) uncorrected(ctx context.Context) (string, error) {
	for name := range s.spoiled {
		object, host, err := s.installed(name)
		if err != nil {
			return "", err
		}
		if err := host.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return "", err
		}
		if object.Data[spoiledKey] == spoiledValue {
			return "what was changed by hand in " + name, nil
		}
		delete(s.spoiled, name)
	}
	return "", nil
}

// installed returns an object of the release with drift correction in a Cluster, and a client for it.
func (s *soak) installed(name string) (*corev1.ConfigMap, client.Client, error) {
	var i int
	if _, err := fmt.Sscanf(name, "c%d", &i); err != nil {
		return nil, nil, err
	}
	server := s.env.Management.Provider.Server(client.ObjectKey{Namespace: namespace, Name: hostName(i % s.hosts)})
	host, err := client.New(server.RESTConfig(), client.Options{})
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: allName}}, host, err
}

// spoil changes an object manually, if the object exists.
func (s *soak) spoil(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(s.present))
	name := names[s.dice.IntN(len(names))]
	object, host, err := s.installed(name)
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"data":{%q:%q}}`, spoiledKey, spoiledValue)
	if err := host.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return client.IgnoreNotFound(err)
	}
	s.spoiled[name] = true
	return nil
}

// selected returns the number of Clusters that a HelmOp selects.
func (s *soak) selected(helmOp string) int {
	if helmOp == allName {
		return len(s.present)
	}
	n := 0
	for name := range s.present {
		var i int
		if _, err := fmt.Sscanf(name, "c%d", &i); err == nil && partName(i%quarters) == helmOp {
			n++
		}
	}
	return n
}

// churn makes changes repeatedly, and measures the manager meanwhile.
func (s *soak) churn(ctx context.Context) error {
	end := time.Now().Add(s.duration)
	middle := end.Add(-s.duration / 2)
	var sampled time.Time
	for time.Now().Before(end) {
		if now := time.Now(); !middle.IsZero() && now.After(middle) {
			middle = time.Time{}
			if err := s.profile(ctx, "middle"); err != nil {
				return err
			}
		}
		next := time.Now().Add(s.beat)
		what, do := s.next()
		s.happened[what]++
		if err := do(ctx); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if time.Since(sampled) >= s.sample {
			sampled = time.Now()
			now, err := s.measure(ctx)
			if err != nil {
				return err
			}
			s.samples = append(s.samples, now)
			s.log("%s; %s", now, what)
		}
		if err := pause(ctx, time.Until(next)); err != nil {
			return err
		}
	}
	return nil
}

// next returns the next change.
func (s *soak) next() (string, func(context.Context) error) {
	switch n := s.dice.IntN(20); {
	case n < 8:
		return "Clusters replaced", s.replace
	case n < 10:
		return "objects changed by hand", s.spoil
	case n < 15:
		return "values changed", func(ctx context.Context) error { return s.change(ctx, partName(s.dice.IntN(quarters))) }
	case n < 16:
		return "values of all changed", func(ctx context.Context) error { return s.change(ctx, allName) }
	case n < 18:
		return "API servers restarted", func(ctx context.Context) error {
			return s.interrupt(ctx, (*apiserver.Server).StopAPIServer, (*apiserver.Server).StartAPIServer)
		}
	default:
		return "API servers hung", func(ctx context.Context) error {
			return s.interrupt(ctx, func(server *apiserver.Server, _ context.Context) error { return server.Hang() },
				func(server *apiserver.Server, _ context.Context) error { return server.Resume() })
		}
	}
}

// replace deletes some Clusters and creates as many.
func (s *soak) replace(ctx context.Context) error {
	for range max(1, s.clusters/50) {
		names := slices.Sorted(maps.Keys(s.present))
		name := names[s.dice.IntN(len(names))]
		delete(s.present, name)
		delete(s.spoiled, name)
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if err := s.env.Client.Delete(ctx, cluster); err != nil {
			return err
		}
		if err := s.add(ctx); err != nil {
			return err
		}
	}
	return nil
}

// change changes the values of a HelmOp.
func (s *soak) change(ctx context.Context, name string) error {
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := s.env.Client.Get(ctx, client.ObjectKeyFromObject(helmOp), helmOp); err != nil {
		return err
	}
	before := helmOp.DeepCopy()
	helmOp.Spec.Values = values(s.dice.IntN(1000) + 1)
	return s.env.Client.Patch(ctx, helmOp, client.MergeFrom(before))
}

// interrupt stops or freezes one of the API servers for a while.
func (s *soak) interrupt(ctx context.Context, begin, end func(*apiserver.Server, context.Context) error) error {
	server := s.env.Management.Provider.Server(client.ObjectKey{Namespace: namespace,
		Name: hostName(s.dice.IntN(s.hosts))})
	if err := begin(server, ctx); err != nil {
		return err
	}
	if err := pause(ctx, outage); err != nil {
		return err
	}
	return end(server, ctx)
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// profile stores profiles of the manager, if a folder is given: at its first and last rest, and in the middle.
func (s *soak) profile(ctx context.Context, which string) error {
	if s.profiles == "" {
		return nil
	}
	if err := os.MkdirAll(s.profiles, 0o750); err != nil {
		return err
	}
	if err := s.manager.CollectGarbage(ctx); err != nil {
		return err
	}
	for _, name := range []string{"heap", "goroutine"} {
		if err := s.manager.Save(ctx, "/debug/pprof/"+name, filepath.Join(s.profiles, which+"."+name+".pprof")); err != nil {
			return err
		}
	}
	return nil
}
