/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

const (
	// poll is how often is looked whether something is done.
	poll = 50 * time.Millisecond

	// patience bounds everything that is waited for.
	patience = 20 * time.Minute
)

// bench is one run of this command.
type bench struct {
	settings
	env   *environment.Environment
	began time.Time
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0f s: %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// fleet creates Clusters in a namespace of their own: hosts, which have API servers and no releases, and others that use
// those. It returns when the control planes of all are there.
func (b *bench) fleet(ctx context.Context, namespace string, groups map[string]int) error {
	obj := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := b.env.Client.Create(ctx, obj); err != nil {
		return err
	}
	if err := b.env.CreateRegistrySecrets(ctx, namespace); err != nil {
		return err
	}
	var options []testbed.ClusterOptions
	for i := range b.hosts {
		options = append(options, testbed.ClusterOptions{Name: fmt.Sprintf("host-%d", i)})
	}
	for group, n := range groups {
		for i := range n {
			options = append(options, testbed.ClusterOptions{
				Name: fmt.Sprintf("%s-%d", group, i), Host: fmt.Sprintf("host-%d", i%b.hosts),
				Labels: map[string]string{"fleet": namespace}, PodCIDRs: []string{"10.1.0.0/16"},
			})
		}
	}
	for i := range options {
		options[i].Namespace = namespace
		if _, err := b.env.Management.CreateCluster(ctx, options[i]); err != nil {
			return err
		}
	}
	for i := range options {
		if err := b.env.Management.WaitClusterAvailable(ctx, client.ObjectKey{Namespace: namespace, Name: options[i].Name}); err != nil {
			return err
		}
	}
	b.say("%d Clusters in %s", len(options), namespace)
	return nil
}

// helmOp is a HelmOp for all Clusters of a namespace but the hosts.
func (b *bench) helmOp(namespace, name string) *addonsv1.HelmOp {
	return &addonsv1.HelmOp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: addonsv1.HelmOpSpec{
			ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"fleet": namespace}},
			Source:          b.env.Source("charts/"+environment.ChartHello, addonsv1.ArtifactReference{Tag: "1.0.0"}),
			Release:         addonsv1.ReleaseTemplate{Namespace: "{{ .Cluster.metadata.name }}"},
			Values:          values("one"),
			ReleaseOptions:  addonsv1.ReleaseOptions{Health: &addonsv1.HealthOptions{Mode: addonsv1.HealthModeDisabled}},
			// Those that hang must not keep it from going.
			DeletionPolicy: addonsv1.DeletionPolicyOrphan,
		},
	}
}

func values(greeting string) *apiextensionsv1.JSON {
	return &apiextensionsv1.JSON{Raw: fmt.Appendf(nil, `{"cluster":"{{ .Cluster.metadata.name }}","podCIDR":"10.1.0.0/16","greeting":%q}`, greeting)}
}

// change changes a HelmOp's values.
func (b *bench) change(ctx context.Context, helmOp *addonsv1.HelmOp, greeting string) error {
	if err := b.env.Client.Get(ctx, client.ObjectKeyFromObject(helmOp), helmOp); err != nil {
		return err
	}
	before := helmOp.DeepCopy()
	helmOp.Spec.Values = values(greeting)
	return b.env.Client.Patch(ctx, helmOp, client.MergeFrom(before))
}

// waitReady waits until so many releases of a HelmOp are Ready at a revision of Helm.
func (b *bench) waitReady(ctx context.Context, helmOp *addonsv1.HelmOp, n int, revision int64) error {
	ready := 0
	err := wait.PollUntilContextTimeout(ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
		list := &addonsv1.HelmOpReleaseList{}
		if err := b.env.Client.List(ctx, list, client.InNamespace(helmOp.Namespace), client.MatchingLabels{addonsv1.HelmOpNameLabel: helmOp.Name}); err != nil {
			return false, err
		}
		ready = 0
		for i := range list.Items {
			child := &list.Items[i]
			if conditions.IsTrue(child, addonsv1.ReadyCondition) && child.Status.Release != nil && child.Status.Release.Revision == revision {
				ready++
			}
		}
		return ready >= n, nil
	})
	if err != nil {
		return fmt.Errorf("%d of %d releases of %s are ready: %w", ready, n, helmOp.Name, err)
	}
	return nil
}

// end deletes a HelmOp, whose releases stay.
func (b *bench) end(ctx context.Context, helmOp *addonsv1.HelmOp) error {
	if err := b.env.Client.Delete(ctx, helmOp); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		err := b.env.Client.Get(ctx, client.ObjectKeyFromObject(helmOp), helmOp)
		return err != nil, client.IgnoreNotFound(err)
	})
}
