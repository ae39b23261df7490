// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/containers"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

// accountFolder is where a Pod has its ServiceAccount.
const accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// LaunchContainer starts a manager as a kubelet does: with the arguments, the environment, the user and the volumes of
// the installed Deployment, and with a read-only root file system. Only the addresses differ. It does not wait. without
// are the names of volumes to omit. See package containers about where this works.
func (e *Environment) LaunchContainer(ctx context.Context, without ...string) (*Manager, error) {
	deployment := &appsv1.Deployment{}
	if err := e.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: Deployment}, deployment); err != nil {
		return nil, fmt.Errorf("read the Deployment of the manager: %w", err)
	}
	pod := deployment.Spec.Template.Spec
	ports, err := process.FreePorts(2)
	if err != nil {
		return nil, err
	}
	m := &Manager{HealthAddress: process.Loopback(ports[0]), DiagnosticsAddress: process.Loopback(ports[1])}
	e.mu.Lock()
	dir := e.dir("manager-" + strconv.Itoa(len(e.managers)))
	e.mu.Unlock()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	spec, err := containerSpec(&pod, without)
	if err != nil {
		return nil, err
	}
	spec.Command = append(spec.Command, "--health-addr="+m.HealthAddress, "--diagnostics-address="+m.DiagnosticsAddress,
		"--allow-local-addresses", "--min-source-interval=1s")
	spec.Files = map[string]string{spec.Command[0]: e.opts.ManagerBinary, accountFolder: filepath.Join(dir, "account")}
	address, err := e.writeAccount(ctx, pod.ServiceAccountName, spec.Files[accountFolder])
	if err != nil {
		return nil, err
	}
	spec.Env = append(spec.Env, address...)
	executable, err := spec.Prepare(dir)
	if err != nil {
		return nil, err
	}
	m.Manager, err = testbed.StartManager(testbed.ManagerOptions{Binary: executable, Dir: dir})
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.managers = append(e.managers, m)
	e.mu.Unlock()
	return m, nil
}

// containerSpec returns the container of the manager's Pod, without its files.
func containerSpec(pod *corev1.PodSpec, without []string) (containers.Spec, error) {
	manager := &pod.Containers[0]
	security := manager.SecurityContext
	if security == nil || security.RunAsUser == nil || security.RunAsGroup == nil || pod.SecurityContext == nil ||
		pod.SecurityContext.FSGroup == nil || security.ReadOnlyRootFilesystem == nil || !*security.ReadOnlyRootFilesystem {
		return containers.Spec{}, errors.New("the Pod of the manager has no user, or can write its root file system")
	}
	spec := containers.Spec{
		Command: append(slices.Clone(manager.Command), given(*manager)...),
		User:    int(*security.RunAsUser), Group: int(*security.RunAsGroup), VolumeGroup: int(*pod.SecurityContext.FSGroup),
	}
	for _, variable := range manager.Env {
		value := strings.ReplaceAll(variable.Value, "$(EMPTY)", "")
		if from := variable.ValueFrom; from != nil {
			switch {
			case from.FieldRef != nil && from.FieldRef.FieldPath == "metadata.namespace":
				value = Namespace
			case from.ResourceFieldRef != nil && from.ResourceFieldRef.Resource == "limits.memory":
				value = strconv.FormatInt(manager.Resources.Limits.Memory().Value(), 10)
			default:
				return containers.Spec{}, fmt.Errorf("the source of the environment variable %s is not known", variable.Name)
			}
		}
		spec.Env = append(spec.Env, variable.Name+"="+value)
	}
	for _, mount := range manager.VolumeMounts {
		if slices.Contains(without, mount.Name) {
			continue
		}
		at := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		volume := containers.Volume{Path: mount.MountPath, ReadOnly: mount.ReadOnly}
		// Optional Secrets and ConfigMaps that do not exist are empty folders.
		if empty := pod.Volumes[at].EmptyDir; empty != nil && empty.SizeLimit != nil {
			volume.Size = empty.SizeLimit.Value()
		} else {
			volume.ReadOnly = true
		}
		spec.Volumes = append(spec.Volumes, volume)
	}
	return spec, nil
}

// writeAccount writes what a Pod has of its ServiceAccount into a folder. It returns the environment with the address
// of the API server.
func (e *Environment) writeAccount(ctx context.Context, account, folder string) ([]string, error) {
	data, err := e.Management.ServiceAccountKubeconfig(ctx, Namespace, account, tokenTTL)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{
		"token": []byte(config.BearerToken), "ca.crt": config.CAData, "namespace": []byte(Namespace),
	} {
		// A kubelet makes the group of the Pod own the files.
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return nil, err
		}
	}
	host, port, err := net.SplitHostPort(strings.TrimPrefix(config.Host, "https://"))
	return []string{"KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port}, err
}
