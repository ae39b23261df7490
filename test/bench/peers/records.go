// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/world"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// Records follows Helm's records in workload clusters.
type Records struct {
	cancel context.CancelFunc

	mu      sync.Mutex
	records map[recordKey]record
}

// recordKey identifies a record. server is the number of its API server.
type recordKey struct {
	server int
	client.ObjectKey
}

// record is what the labels of a record say.
type record struct {
	release, status string
	revision        int
}

// FollowRecords follows the records in all API servers, until Stop.
func FollowRecords(ctx context.Context, servers []*apiserver.Server) (*Records, error) {
	ctx, cancel := context.WithCancel(ctx)
	r := &Records{cancel: cancel, records: map[recordKey]record{}}
	for i, server := range servers {
		if err := r.follow(ctx, i, server); err != nil {
			cancel()
			return nil, fmt.Errorf("follow Helm's records: %w", err)
		}
	}
	return r, nil
}

func (r *Records) follow(ctx context.Context, number int, server *apiserver.Server) error {
	objects, err := cache.New(server.RESTConfig(), cache.Options{
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"owner": "helm"}),
		DefaultTransform:     cache.TransformStripManagedFields(),
	})
	if err != nil {
		return err
	}
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	informer, err := objects.GetInformer(ctx, secret, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	set := func(obj any) { r.set(number, obj) }
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: set, UpdateFunc: func(_, obj any) { set(obj) }, DeleteFunc: func(obj any) { r.remove(number, obj) },
	}); err != nil {
		return err
	}
	go func() { _ = objects.Start(ctx) }()
	if !objects.WaitForCacheSync(ctx) {
		return errors.New("the Secrets cannot be watched")
	}
	return nil
}

// Stop ends the watches.
func (r *Records) Stop() { r.cancel() }

func (r *Records) set(server int, obj any) {
	secret, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	found := record{release: secret.Labels["name"], status: secret.Labels["status"]}
	// A record without a number is no revision.
	found.revision, _ = strconv.Atoi(secret.Labels["version"])
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records[recordKey{server, client.ObjectKeyFromObject(secret)}] = found
}

func (r *Records) remove(server int, obj any) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	secret, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.records, recordKey{server, client.ObjectKeyFromObject(secret)})
}

// Deployed returns how many releases of a fleet are deployed with this revision, or a later one.
func (r *Records) Deployed(f *Fleet, revision int) int {
	type release struct {
		server          int
		namespace, name string
	}
	deployed := map[release]bool{}
	r.each(f, func(key recordKey, found record) {
		if found.status == "deployed" && found.revision >= revision {
			deployed[release{key.server, key.Namespace, found.release}] = true
		}
	})
	return len(deployed)
}

// Left returns how many records of a fleet there are.
func (r *Records) Left(f *Fleet) int {
	n := 0
	r.each(f, func(recordKey, record) { n++ })
	return n
}

func (r *Records) each(f *Fleet, do func(recordKey, record)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, found := range r.records {
		if strings.HasPrefix(key.Namespace, f.prefix()) {
			do(key, found)
		}
	}
}

// Check reads an object of each release of a fleet, and returns an error if its values are not those of the release.
// Records alone would not show that a tool has applied other values.
func Check(ctx context.Context, f *Fleet, level string) error {
	for i := range f.Clusters {
		cluster := &f.Clusters[i]
		reader, err := client.New(cluster.Server.RESTConfig(), client.Options{})
		if err != nil {
			return err
		}
		for _, chart := range f.Charts {
			config := &corev1.ConfigMap{}
			key := client.ObjectKey{Namespace: f.Namespace(chart.Name), Name: chart.Name + "-" + chart.Name}
			if err := reader.Get(ctx, key, config); err != nil {
				return fmt.Errorf("%s in %s: %w", chart.Name, cluster.Name, err)
			}
			if !hasValues(config, cluster, level) {
				return fmt.Errorf("%s in %s does not have the log level %s: %v", chart.Name, cluster.Name, level, config.Data)
			}
		}
	}
	return nil
}

// hasValues reports whether a ConfigMap of charts.Large has the values for a Cluster.
func hasValues(config *corev1.ConfigMap, cluster *world.Cluster, level string) bool {
	text := config.Data["agent.yaml"]
	return strings.Contains(text, "logLevel: "+level+"\n") && strings.Contains(text, "cluster: "+cluster.Name+"\n")
}
