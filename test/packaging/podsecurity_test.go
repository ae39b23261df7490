// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"context"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

// TestPodSecurity creates the Pods of all Deployments, as a dry run, in the namespace of an installation. An API server
// enforces the Pod Security Standard "restricted" there, and refuses Pods with more rights.
func TestPodSecurity(t *testing.T) {
	t.Parallel()
	programs, err := binaries.Ensure(t.Context(), binaries.Options{Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	server, err := apiserver.Start(t.Context(), apiserver.Options{Name: "podsecurity", Dir: t.TempDir(),
		Binaries: programs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Log(err)
		}
	})
	c, err := client.New(server.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	installed := convert[corev1.Namespace](t, ofKind(objects(t), "Namespace")[0])
	if err := c.Create(t.Context(), installed); err != nil {
		t.Fatal(err)
	}

	pods := map[string]*corev1.Pod{}
	folders := []string{"config/default", "config/management-cluster", "config/one-namespace", "config/shard"}
	for _, folder := range folders {
		for _, obj := range ofKind(built(t, folder), "Deployment") {
			template := convert[appsv1.Deployment](t, obj).Spec.Template
			pods[folder] = &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod", Labels: template.Labels}, Spec: template.Spec,
			}
		}
	}
	if len(pods) != len(folders) {
		t.Fatalf("%d Pods", len(pods))
	}
	for folder, pod := range pods {
		if err := c.Create(t.Context(), pod.DeepCopy(), client.DryRunAll); err != nil {
			t.Errorf("%s: %v", folder, err)
		}
	}
	for name, change := range map[string]func(*corev1.Pod){
		"root": func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.RunAsUser = new(int64) },
		"privileged": func(p *corev1.Pod) {
			privileged := true
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &privileged}
		},
		"host path": func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "host",
				VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
		},
		"capabilities": func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.Capabilities = nil },
	} {
		pod := pods["config/default"].DeepCopy()
		change(pod)
		err := c.Create(t.Context(), pod, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), `violates PodSecurity "restricted`) {
			t.Errorf("a Pod with %s: %v", name, err)
		}
	}
}
