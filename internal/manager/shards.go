// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sharding"
)

// podNamespaceFile is the file that contains the namespace of the pod.
const podNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// setupShards makes the manager without --shard report which shards are served. A manager with --shard reports that it
// runs.
func setupShards(mgr ctrl.Manager, options *Options) error {
	namespace := leaseNamespace(options)
	switch {
	case namespace == "":
		mgr.GetLogger().Info(
			"Not reporting which shards are served: the namespace of the leases is unknown; set --leader-elect-namespace")
		return nil
	case options.shard == "":
		return setupOverview(mgr, options, namespace)
	case options.leaderElect:
		return nil // the lease of its leader election shows that it runs
	default:
		return mgr.Add(&heartbeat{
			client: mgr.GetClient(), live: mgr.GetAPIReader(), duration: options.leaderElectLeaseDuration, now: time.Now,
			key: client.ObjectKey{Namespace: namespace, Name: apiutil.ShardLease(options.shard)},
		})
	}
}

// leaseNamespace returns the namespace of the leases of managers; empty if it is not known.
func leaseNamespace(options *Options) string {
	if options.leaderElectNamespace != "" {
		return options.leaderElectNamespace
	}
	data, err := os.ReadFile(podNamespaceFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// setupOverview watches the metadata of objects with a shard label. Only the leader runs it.
func setupOverview(mgr ctrl.Manager, options *Options, namespace string) error {
	hasShard, err := labels.NewRequirement(addonsv1.ShardLabel, selection.Exists, nil)
	if err != nil {
		return err
	}
	cacheOptions := cacheOptions(options)
	cacheOptions.Scheme, cacheOptions.Mapper = mgr.GetScheme(), mgr.GetRESTMapper()
	cacheOptions.DefaultTransform = onlyShard
	labelled := cache.ByObject{Label: labels.NewSelector().Add(*hasShard)}
	cacheOptions.ByObject = map[client.Object]cache.ByObject{&addonsv1.HelmOp{}: labelled, &clusterv1.Cluster{}: labelled}
	others, err := cache.New(mgr.GetConfig(), cacheOptions)
	if err != nil {
		return fmt.Errorf("setting up the watch of other shards: %w", err)
	}
	if err := mgr.Add(others); err != nil {
		return err
	}
	return mgr.Add(sharding.NewShardOverview(sharding.ShardOverviewOptions{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Others: others, Synced: others.WaitForCacheSync,
		LeaseNamespace: namespace,
		LeaseDuration:  options.leaderElectLeaseDuration, WatchFilterValue: options.watchFilter,
	}))
}

// onlyShard removes everything from an object except its shard. So ten thousand Clusters take only a few hundred bytes
// each.
func onlyShard(obj any) (any, error) {
	object, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	kept := &metav1.PartialObjectMetadata{TypeMeta: object.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: object.Namespace, Name: object.Name, UID: object.UID,
		ResourceVersion: object.ResourceVersion, Labels: map[string]string{},
	}}
	for _, key := range []string{addonsv1.ShardLabel, clusterv1.WatchLabel} {
		if value, ok := object.Labels[key]; ok {
			kept.Labels[key] = value
		}
	}
	return kept, nil
}

// heartbeat renews the lease of a shard for a manager that runs without leader election. No other process uses this
// lease: without leader election, only one manager may run.
type heartbeat struct {
	client   client.Client
	live     client.Reader
	key      client.ObjectKey
	duration time.Duration
	now      func() time.Time
}

// Start renews the lease until ctx ends, and then releases it.
func (h *heartbeat) Start(ctx context.Context) error {
	ticker := time.NewTicker(h.duration / 3)
	defer ticker.Stop()
	for {
		if err := h.beat(ctx, identity()); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot renew the lease that reports the shard as served", "lease", h.key)
		}
		select {
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.duration)
			defer cancel()
			return h.beat(ctx, "")
		case <-ticker.C:
		}
	}
}

func identity() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "helmop"
	}
	return name
}

// beat renews the lease for a holder.
func (h *heartbeat) beat(ctx context.Context, holder string) error {
	ctx, cancel := context.WithTimeout(ctx, h.duration)
	defer cancel()
	lease := &coordinationv1.Lease{}
	err := h.live.Get(ctx, h.key, lease)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	lease.Namespace, lease.Name = h.key.Namespace, h.key.Name
	lease.Spec.HolderIdentity = &holder
	lease.Spec.LeaseDurationSeconds = ptr.To(max(1, int32(h.duration/time.Second)))
	lease.Spec.RenewTime = &metav1.MicroTime{Time: h.now()}
	if err != nil {
		return h.client.Create(ctx, lease)
	}
	return h.client.Update(ctx, lease)
}
