// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// TestShardIsOneMoreManager checks that config/shard can run together with config/default, and differs only in the
// shard.
func TestShardIsOneMoreManager(t *testing.T) {
	t.Parallel()
	text, err := command("go", "tool", "-modfile=hack/tools/codegen/go.mod", "kustomize", "build", "config/shard")
	if err != nil {
		t.Fatal(err)
	}
	objs := parse(t, variable.ReplaceAllString(text, "$2"))
	if len(objs) != 1 || objs[0].GetKind() != "Deployment" {
		t.Fatalf("config/shard is not one Deployment: %v", objs)
	}
	shard := convert[appsv1.Deployment](t, objs[0])
	plain, plainContainer := deployment(t)
	if shard.Namespace != plain.Namespace || shard.Name == plain.Name {
		t.Errorf("the Deployment is %s/%s, beside %s/%s", shard.Namespace, shard.Name, plain.Namespace, plain.Name)
	}
	pod := shard.Spec.Template.Spec
	if pod.ServiceAccountName != plain.Spec.Template.Spec.ServiceAccountName {
		t.Errorf("the ServiceAccount is %s, not %s", pod.ServiceAccountName, plain.Spec.Template.Spec.ServiceAccountName)
	}
	container := pod.Containers[0]
	for i := range container.Args {
		container.Args[i] = expand(container.Args[i], container.Env)
	}
	if want := append(slices.Clone(plainContainer.Args), "--shard=b"); !slices.Equal(container.Args, want) {
		t.Errorf("the arguments are %v, not %v", container.Args, want)
	}
	managerFlags(t, container.Args)
	if container.Image != plainContainer.Image {
		t.Errorf("the image is %s, not %s", container.Image, plainContainer.Image)
	}
	name := shard.Spec.Template.Labels[addonsv1.ShardLabel]
	if shard.Spec.Selector.MatchLabels[addonsv1.ShardLabel] != "b" || name != "b" || !strings.HasSuffix(shard.Name, "-b") {
		t.Errorf("the Deployment selects Pods with %v, its name is %s", shard.Spec.Selector.MatchLabels, shard.Name)
	}
	if _, ok := shard.Labels["cluster.x-k8s.io/provider"]; ok {
		t.Error("clusterctl would delete the Deployment with each upgrade")
	}
}
