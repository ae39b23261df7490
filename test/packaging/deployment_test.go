// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/manager"
)

// managerFlags parses arguments like the manager.
func managerFlags(t *testing.T, args []string) *pflag.FlagSet {
	t.Helper()
	options := &manager.Options{}
	fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	options.AddFlags(fs)
	logsv1.AddFlags(logs.NewOptions(), fs)
	if err := fs.Parse(args); err != nil {
		t.Fatalf("the manager refuses the Deployment's arguments: %v", err)
	}
	if err := options.Validate(); err != nil {
		t.Fatalf("the manager refuses the Deployment's arguments: %v", err)
	}
	return fs
}

func TestArgumentsAreFlagsWithTheirDefaults(t *testing.T) {
	t.Parallel()
	_, container := deployment(t)
	if len(container.Args) == 0 {
		t.Fatal("the manager has no arguments")
	}
	managerFlags(t, container.Args).Visit(func(f *pflag.Flag) {
		// Without a leader election, two managers would be active during every rollout of the Deployment.
		want := f.DefValue
		if f.Name == "leader-elect" {
			want = "true"
		}
		if f.Value.String() != want {
			t.Errorf("--%s is %q by default in the Deployment, and %q in the manager", f.Name, f.Value, want)
		}
	})
}

func TestArgumentsMatchTheDeployment(t *testing.T) {
	t.Parallel()
	d, container := deployment(t)
	fs := managerFlags(t, container.Args)
	pod := d.Spec.Template.Spec

	graceful, err := fs.GetDuration("graceful-shutdown-timeout")
	if err != nil {
		t.Fatal(err)
	}
	if grace := pod.TerminationGracePeriodSeconds; grace == nil || time.Duration(*grace)*time.Second <= graceful {
		t.Errorf("the kubelet kills the manager after %v s, before its shutdown timeout of %s", grace, graceful)
	}

	directory, size := fs.Lookup("artifact-dir").Value.String(), fs.Lookup("artifact-max-bytes").Value.String()
	volume := volumeAt(pod, container, directory)
	if volume == nil || volume.EmptyDir == nil || volume.EmptyDir.SizeLimit == nil {
		t.Fatalf("no emptyDir with a size limit is mounted at --artifact-dir %s", directory)
	}
	if store := resource.MustParse(size); volume.EmptyDir.SizeLimit.Cmp(store) <= 0 {
		t.Errorf("volume of %s for a store of %s bytes: the kubelet evicts the manager before the store trims itself",
			volume.EmptyDir.SizeLimit, size)
	}

	ports := map[string]int32{}
	for _, port := range container.Ports {
		ports[port.Name] = port.ContainerPort
	}
	for name, flag := range map[string]string{"healthz": "health-addr", "metrics": "diagnostics-address"} {
		address := fs.Lookup(flag).Value.String()
		if want := resource.NewQuantity(int64(ports[name]), resource.DecimalSI).String(); !strings.HasSuffix(address,
			":"+want) {
			t.Errorf("port %s is %s, --%s is %s", name, want, flag, address)
		}
	}
}

func volumeAt(pod corev1.PodSpec, container corev1.Container, path string) *corev1.Volume {
	for _, mount := range container.VolumeMounts {
		for i := range pod.Volumes {
			if mount.MountPath == path && pod.Volumes[i].Name == mount.Name && !mount.ReadOnly {
				return &pod.Volumes[i]
			}
		}
	}
	return nil
}

func TestContainerHasProbesAndSecurityContext(t *testing.T) {
	t.Parallel()
	d, container := deployment(t)
	// clusterctl and Tilt require this name.
	if container.Name != "manager" {
		t.Errorf("the container is named %q", container.Name)
	}
	for name, probe := range map[string]*corev1.Probe{"/healthz": container.LivenessProbe,
		"/readyz": container.ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != name || probe.HTTPGet.Port.String() != "healthz" {
			t.Errorf("no probe of %s on the port healthz", name)
		}
	}
	// The requirements of the Pod Security Standard "restricted", which the namespace enforces, and more.
	security, pod := container.SecurityContext, d.Spec.Template.Spec.SecurityContext
	if security == nil || pod == nil {
		t.Fatal("no security context")
	}
	conditions := map[string]bool{
		"runs as non-root": pod.RunAsNonRoot != nil && *pod.RunAsNonRoot,
		"seccomp RuntimeDefault": pod.SeccompProfile != nil &&
			pod.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"no privilege escalation":    security.AllowPrivilegeEscalation != nil && !*security.AllowPrivilegeEscalation,
		"read-only root file system": security.ReadOnlyRootFilesystem != nil && *security.ReadOnlyRootFilesystem,
		"no capabilities": security.Capabilities != nil && len(security.Capabilities.Drop) == 1 &&
			security.Capabilities.Drop[0] == "ALL" && len(security.Capabilities.Add) == 0,
		"user of the image (65532)":    security.RunAsUser != nil && *security.RunAsUser == 65532,
		"volumes writable by the user": pod.FSGroup != nil && *pod.FSGroup == 65532,
		"requests resources": !container.Resources.Requests.Cpu().IsZero() &&
			!container.Resources.Requests.Memory().IsZero(),
	}
	for name, ok := range conditions {
		if !ok {
			t.Errorf("does not hold: %s", name)
		}
	}
	for _, volume := range d.Spec.Template.Spec.Volumes {
		if isOptional(volume) {
			continue
		}
		if volume.EmptyDir == nil || volume.EmptyDir.SizeLimit == nil {
			t.Errorf("volume %s is neither an emptyDir with a size limit nor optional", volume.Name)
		}
	}
}

// isOptional reports whether a Pod starts without the content of a volume: users add it after clusterctl init, or
// never.
func isOptional(volume corev1.Volume) bool {
	secret, configMap := volume.Secret, volume.ConfigMap
	return secret != nil && secret.Optional != nil && *secret.Optional ||
		configMap != nil && configMap.Optional != nil && *configMap.Optional
}

// TestDocumentedServiceAccount checks the name in the documentation of cloud identities for the manager's
// ServiceAccount.
func TestDocumentedServiceAccount(t *testing.T) {
	t.Parallel()
	d, _ := deployment(t)
	name := d.Spec.Template.Spec.ServiceAccountName
	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "oci.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"`" + d.Namespace + "/" + name + "`",
		"-n " + d.Namespace + " annotate sa " + name + " "} {
		if !strings.Contains(string(docs), text) {
			t.Errorf("docs/oci.md does not have %q", text)
		}
	}
}

// TestOptionalFilesAreMounted checks that files that users add after clusterctl init are where the manager reads them.
func TestOptionalFilesAreMounted(t *testing.T) {
	t.Parallel()
	d, container := deployment(t)
	fs := managerFlags(t, container.Args)
	volumes := map[string]corev1.Volume{}
	for _, volume := range d.Spec.Template.Spec.Volumes {
		volumes[volume.Name] = volume
	}
	for _, flag := range []string{"registry-credentials-file", "registry-ca-file", "registries-file"} {
		mounted := false
		for _, mount := range container.VolumeMounts {
			if path.Dir(fs.Lookup(flag).Value.String()) == mount.MountPath {
				mounted = mount.ReadOnly && isOptional(volumes[mount.Name])
			}
		}
		if !mounted {
			t.Errorf("--%s=%s is in no optional volume", flag, fs.Lookup(flag).Value)
		}
	}
}
