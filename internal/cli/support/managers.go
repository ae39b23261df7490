// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package support

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bootstrap"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
)

const (
	// managerSelector selects the Pods and Deployments of managers of HelmOp and of other providers.
	managerSelector = "control-plane=controller-manager"

	// managerContainer is the container of the manager.
	managerContainer = "manager"
)

// managers reads the Pods of the manager and their logs.
type managers struct {
	kubernetes.Interface
	namespace string
}

// addManagerFlag adds the flag for the namespace of the manager.
func addManagerFlag(cmd *cobra.Command, namespace *string) {
	cmd.Flags().StringVar(namespace, "manager-namespace", bootstrap.Namespace, "The namespace of the manager.")
}

// newManagers returns managers for a namespace. It sends no request.
func newManagers(b *kube.Base, namespace string) (*managers, error) {
	config, err := b.RestConfig()
	if err != nil {
		return nil, err
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, kube.Explain(err)
	}
	return &managers{Interface: clientset, namespace: namespace}, nil
}

// isManager reports whether labels belong to a manager of HelmOp. The Deployments of shards have no label of
// clusterctl.
func isManager(of labels.Set) bool {
	return of[clusterv1.ProviderNameLabel] == clusterctlv1.ManifestLabel(bootstrap.ProviderHelmOp,
		clusterctlv1.AddonProviderType) || of.Has(addonsv1.ShardLabel)
}

// pods lists the Pods of the managers, sorted by name. It returns an error if there is no Pod.
func (m *managers) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := m.CoreV1().Pods(m.namespace).List(ctx, metav1.ListOptions{LabelSelector: managerSelector})
	if err != nil {
		return nil, kube.Explain(err)
	}
	pods := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !isManager(pod.Labels) })
	if len(pods) == 0 {
		return nil, kube.WithText(fmt.Sprintf("no manager found in namespace %q: no Pod has the label %s and one of "+
			"%s=addon-helmop and %s; set --manager-namespace", m.namespace, managerSelector, clusterv1.ProviderNameLabel,
			addonsv1.ShardLabel), apierrors.NewNotFound(corev1.Resource("pods"), "controller-manager"))
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods, nil
}

// log calls fn for each entry of the log of a Pod.
func (m *managers) log(ctx context.Context, pod *corev1.Pod, options corev1.PodLogOptions, fn func(entry)) (err error) {
	options.Container, options.Timestamps = containerOf(pod), true
	stream, err := m.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &options).Stream(ctx)
	if err != nil {
		return kube.Explain(err)
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	return readEntries(stream, true, fn)
}

// containerOf returns the name of the container of a manager.
func containerOf(pod *corev1.Pod) string {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == managerContainer {
			return managerContainer
		}
	}
	return pod.Spec.Containers[0].Name
}

// sinceOption returns the option that limits the age of entries; nil for all entries.
func sinceOption(since time.Duration) *int64 {
	if since <= 0 {
		return nil
	}
	// Kubernetes refuses 0.
	seconds := max(int64(since.Round(time.Second)/time.Second), 1)
	return &seconds
}
