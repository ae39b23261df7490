// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/contestant"
	controlplanev1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/controlplane/v1alpha1"
	infrav1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/infrastructure/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// GroupLabel is the label of Clusters by which HelmOps select them.
const GroupLabel = "bench-group"

// confinedGroup is the group of confined users, and the name of two ClusterRoles. The first role has the users' rights
// in their own namespaces. The second role has their only permission outside of them: to create a namespace that
// exists.
const confinedGroup = "helmop-bench-confined"

// creating is the number of Clusters that are written at once.
const creating = 8

// Cluster is a workload cluster: a user at an API server that it may share with others.
type Cluster struct {
	Namespace, Name, Group string
	Server                 *apiserver.Server
	// Shard is the shard of the Cluster. Default: the Cluster has no label with a shard.
	Shard string
	// Relay is the connection to the API server, if it is set.
	Relay *Relay
	// Confined is the only namespace of the API server that the user of the Cluster may access. The namespace is created
	// with the Cluster. Otherwise, watches of Clusters that share an API server would include the objects of all others.
	// Default: the user may access everything.
	Confined string
}

// Group returns n Clusters of a group, spread over the API servers. It does not create the Clusters.
func (w *World) Group(namespace, group string, n int) []Cluster {
	clusters := make([]Cluster, n)
	for i := range clusters {
		clusters[i] = Cluster{Namespace: namespace, Name: fmt.Sprintf("%s-%d", group, i), Group: group,
			Server: w.Servers[i%len(w.Servers)]}
	}
	return clusters
}

// Kubeconfig returns a new kubeconfig of the Cluster. In the audit log, its user has the Cluster's name.
func (c *Cluster) Kubeconfig() ([]byte, error) {
	group := "system:masters"
	if c.Confined != "" {
		group = confinedGroup
	}
	data, err := c.Server.UserKubeconfig(c.Name, group)
	if err != nil || c.Relay == nil {
		return data, err
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, err
	}
	for _, cluster := range config.Clusters {
		cluster.Server = c.Relay.Address()
	}
	return clientcmd.Write(*config)
}

// shardLabels returns the label of an object of a shard.
func shardLabels(shard string) map[string]string {
	if shard == "" {
		return nil
	}
	return map[string]string{addonsv1.ShardLabel: shard}
}

// Contestants returns the same clusters for a contestant.
func Contestants(clusters []Cluster) ([]contestant.Cluster, error) {
	var all []contestant.Cluster
	for i := range clusters {
		data, err := clusters[i].Kubeconfig()
		if err != nil {
			return nil, err
		}
		all = append(all, contestant.Cluster{Name: clusters[i].Name, Kubeconfig: data})
	}
	return all, nil
}

// CreateNamespace creates a namespace with the Secrets that give access to the registry.
func (w *World) CreateNamespace(ctx context.Context, name string) error {
	if err := w.Env.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return err
	}
	return w.Env.CreateRegistrySecrets(ctx, name)
}

// CreateClusters creates Clusters whose control planes are initialized.
func (w *World) CreateClusters(ctx context.Context, clusters []Cluster) error {
	return parallel(len(clusters), creating, func(i int) error {
		if err := w.PrepareCluster(ctx, clusters[i]); err != nil {
			return err
		}
		_, err := w.InitializeCluster(ctx, clusters[i])
		return err
	})
}

// DeleteClusters deletes all Clusters of a namespace. Their workload clusters stay.
func (w *World) DeleteClusters(ctx context.Context, namespace string) error {
	return w.Env.Client.DeleteAllOf(ctx, &clusterv1.Cluster{}, client.InNamespace(namespace))
}

// AllowConfined prepares all API servers for confined Clusters.
func (w *World) AllowConfined(ctx context.Context) error {
	admins := make([]client.Client, len(w.Servers))
	err := parallel(len(w.Servers), creating, func(i int) error {
		admin, err := client.New(w.Servers[i].RESTConfig(), client.Options{})
		if err != nil {
			return err
		}
		const outside = confinedGroup + "-outside"
		for _, obj := range []client.Object{
			&rbacv1.ClusterRole{
				ObjectMeta: metav1.ObjectMeta{Name: confinedGroup},
				Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
			},
			&rbacv1.ClusterRole{
				ObjectMeta: metav1.ObjectMeta{Name: outside},
				Rules: []rbacv1.PolicyRule{
					{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"create"}},
					{NonResourceURLs: []string{"/"}, Verbs: []string{"get"}},
				},
			},
			&rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: outside},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: outside},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: confinedGroup}},
			},
		} {
			if err := admin.Create(ctx, obj); err != nil {
				return err
			}
		}
		admins[i] = admin
		return nil
	})
	w.admins = map[*apiserver.Server]client.Client{}
	for i, server := range w.Servers {
		w.admins[server] = admins[i]
	}
	return err
}

// confine creates the only namespace that a Cluster's user may access.
func (w *World) confine(ctx context.Context, c Cluster) error {
	if c.Confined == "" {
		return nil
	}
	admin := w.admins[c.Server]
	return errors.Join(
		admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Confined}}),
		admin.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.Confined, Name: confinedGroup},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: confinedGroup},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: c.Name}},
		}))
}

// PrepareCluster creates a Cluster and its objects. Its control plane is not initialized.
func (w *World) PrepareCluster(ctx context.Context, c Cluster) error {
	if err := w.confine(ctx, c); err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: c.Namespace, Name: c.Name}
	data, err := c.Kubeconfig()
	if err != nil {
		return err
	}
	own := func() metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name,
			Labels: map[string]string{clusterv1.ClusterNameLabel: c.Name}}
	}
	access := kubeconfig.GenerateSecretWithOwner(key, data, metav1.OwnerReference{})
	// The garbage collector would look for the owner.
	access.OwnerReferences = nil
	grouped := own()
	grouped.Labels[GroupLabel] = c.Group
	maps.Copy(grouped.Labels, shardLabels(c.Shard))
	version := c.Server.Version()
	for _, obj := range []client.Object{
		&infrav1.LocalCluster{ObjectMeta: own(), Spec: infrav1.LocalClusterSpec{Region: "north"}},
		&controlplanev1.LocalControlPlane{ObjectMeta: own(), Spec: controlplanev1.LocalControlPlaneSpec{Version: version}},
		access,
		&clusterv1.Cluster{
			ObjectMeta: grouped,
			Spec: clusterv1.ClusterSpec{
				ClusterNetwork:       clusterv1.ClusterNetwork{Pods: clusterv1.NetworkRanges{CIDRBlocks: []string{"10.1.0.0/16"}}},
				ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: int32(c.Server.Port())},
				InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group,
					Kind: "LocalCluster", Name: c.Name},
				ControlPlaneRef: clusterv1.ContractVersionedObjectReference{APIGroup: controlplanev1.GroupVersion.Group,
					Kind: "LocalControlPlane", Name: c.Name},
			},
		},
	} {
		if err := w.Env.Client.Create(ctx, obj); err != nil {
			return fmt.Errorf("create the %T %s: %w", obj, key, err)
		}
	}
	return nil
}

// InitializeCluster sets the control plane of a Cluster to initialized, and returns the time of the change.
func (w *World) InitializeCluster(ctx context.Context, c Cluster) (time.Time, error) {
	own, yes := metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}, true
	controlPlane := &controlplanev1.LocalControlPlane{ObjectMeta: own}
	before := client.MergeFrom(controlPlane.DeepCopy())
	controlPlane.Status.Version = c.Server.Version()
	controlPlane.Status.Initialization = &controlplanev1.LocalControlPlaneInitialization{ControlPlaneInitialized: &yes}
	if err := w.Env.Client.Status().Patch(ctx, controlPlane, before); err != nil {
		return time.Time{}, err
	}
	cluster := &clusterv1.Cluster{ObjectMeta: own}
	before = client.MergeFrom(cluster.DeepCopy())
	cluster.Status.Phase = string(clusterv1.ClusterPhaseProvisioned)
	cluster.Status.Initialization.InfrastructureProvisioned = &yes
	cluster.Status.Initialization.ControlPlaneInitialized = &yes
	for _, condition := range []string{clusterv1.ClusterControlPlaneInitializedCondition,
		clusterv1.ClusterAvailableCondition} {
		meta.SetStatusCondition(&cluster.Status.Conditions,
			metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: "Bench"})
	}
	begun := time.Now()
	return begun, w.Env.Client.Status().Patch(ctx, cluster, before)
}
