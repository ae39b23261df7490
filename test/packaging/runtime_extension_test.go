// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
)

// TestRuntimeExtensionComponent checks that the parts of the Runtime Extension fit together: the ExtensionConfig, the
// Service, the certificate, the ports and the Deployment.
func TestRuntimeExtensionComponent(t *testing.T) {
	t.Parallel()
	const port = 9443
	objs := parse(t, variable.ReplaceAllString(buildWith(t, "network-policy", "runtime-extension"), "$2"))
	d := convert[appsv1.Deployment](t, ofKind(objs, "Deployment")[0])
	container, pod := d.Spec.Template.Spec.Containers[0], labels.Set(d.Spec.Template.Labels)
	service := convert[corev1.Service](t, ofKind(objs, "Service")[0])
	config := extensionConfig(t)
	policy := convert[networkingv1.NetworkPolicy](t, ofKind(objs, "NetworkPolicy")[0])

	if !slices.Contains(container.Args, "--runtime-extension-port=9443") {
		t.Errorf("arguments %v", container.Args)
	}
	if ref := config.Spec.ClientConfig.Service; ref.Name != service.Name || ref.Namespace != service.Namespace ||
		*ref.Port != service.Spec.Ports[0].Port {
		t.Errorf("the ExtensionConfig names the Service %+v", ref)
	}
	if !labels.SelectorFromSet(service.Spec.Selector).Matches(pod) || !slices.ContainsFunc(container.Ports,
		func(p corev1.ContainerPort) bool {
			return p.Name == service.Spec.Ports[0].TargetPort.StrVal && p.ContainerPort == port
		}) {
		t.Errorf("the Service selects %v, and has the ports %v", service.Spec.Selector, service.Spec.Ports)
	}
	if len(ofKind(objs, "ExtensionConfig")) > 0 {
		t.Error("the component has the ExtensionConfig, which clusterctl would delete with each upgrade")
	}
	for _, shard := range ofKind(built(t, "config/shard"), "Deployment") {
		other := labels.Set(convert[appsv1.Deployment](t, shard).Spec.Template.Labels)
		if labels.SelectorFromSet(service.Spec.Selector).Matches(other) {
			t.Errorf("the Service selects Pods of another shard: %v", other)
		}
	}
	for _, rule := range policy.Spec.Ingress {
		opens := slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port.IntVal == port })
		isOfClusterAPI := len(rule.From) == 1 &&
			rule.From[0].NamespaceSelector.MatchLabels[corev1.LabelMetadataName] == "capi-system"
		if opens != isOfClusterAPI {
			t.Errorf("the NetworkPolicy has the rule %+v", rule)
		}
	}
	certificate := ofKind(objs, "Certificate")[0]
	secret, _, _ := unstructured.NestedString(certificate.Object, "spec", "secretName")
	names, _, _ := unstructured.NestedStringSlice(certificate.Object, "spec", "dnsNames")
	if !slices.Contains(names, service.Name+"."+service.Namespace+".svc") {
		t.Errorf("the certificate has the names %v", names)
	}
	if got := config.Annotations[runtimev1.InjectCAFromSecretAnnotation]; got != service.Namespace+"/"+secret {
		t.Errorf("the ExtensionConfig gets its CA from %s", got)
	}
	mounted := slices.ContainsFunc(d.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == secret &&
			slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
				return m.Name == v.Name && m.MountPath == "/etc/helmop/runtime-extension"
			})
	})
	if !mounted {
		t.Errorf("the Secret %s is not mounted", secret)
	}
}

// extensionConfig returns the ExtensionConfig, which users apply by hand.
func extensionConfig(t *testing.T) *runtimev1.ExtensionConfig {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "config/runtime-extension/extensionconfig.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config := convert[runtimev1.ExtensionConfig](t, parse(t, string(data))[0])
	if len(config.Labels) > 0 {
		t.Errorf("the ExtensionConfig has the labels %v, by which clusterctl would delete it", config.Labels)
	}
	return config
}
