// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/monitoring"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	payloadregistry "github.com/helmop/cluster-api-addon-provider-helmop/internal/payload/registry"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// maxHelmOpsWithRecordsLeft bounds the memory of HelmOps that have an Event about records that a registry keeps.
const maxHelmOpsWithRecordsLeft = 4096

func newRecordsLeft() *lru.Cache[types.UID, bool] {
	cache, err := lru.New[types.UID, bool](maxHelmOpsWithRecordsLeft)
	if err != nil {
		panic(err) // only for a size below one
	}
	return cache
}

// RecordStorage tells where the records of releases are kept outside of their clusters.
type RecordStorage struct {
	// Registries speak to the registries that keep records; nil if there are none.
	Registries *payloadregistry.Registries

	// URL is the repository for HelmOps that say nothing else; empty if theirs are kept in the workload clusters.
	// FormerURLs are those that it was before. Access reads how to reach them.
	URL        string
	FormerURLs []string
	Access     func(ctx context.Context) (oci.Access, error)
}

// storage tells where the records of a release are kept. It asks nobody. Like the deletion policy, it is that of the
// HelmOp as long as there is one: credentials may have been replaced after the release was last told.
func (r *Reconciler) storage(scope *releaseScope) model.Storage {
	if r.records.Registries == nil {
		return model.Storage{}
	}
	told := scope.release.Spec.Storage
	if scope.helmOp != nil {
		told = scope.helmOp.Spec.Storage
	}
	options, outside := r.recordRepositories(told, scope.release.Namespace)
	options.Cluster = apiutil.ClusterKey(scope.release).String()
	return model.Storage{Store: r.records.Registries.Store(options), Outside: outside}
}

// recordRepositories tells in which repositories records are, and whether new ones are to be kept there.
func (r *Reconciler) recordRepositories(told *addonsv1.RecordStorage,
	namespace string,
) (options payloadregistry.Options, outside bool) {
	if told == nil {
		told = &addonsv1.RecordStorage{}
	}
	var known []payloadregistry.Repository
	add := func(access func(context.Context) (oci.Access, error), urls ...string) {
		for _, url := range urls {
			known = append(known, payloadregistry.Repository{URL: url, Access: access})
		}
	}
	if registry := told.Registry; registry != nil {
		access := func(ctx context.Context) (oci.Access, error) {
			return r.references.AccessBy(ctx, &references.RegistryRefs{
				Field: "spec.storage.registry", Namespace: namespace, Secret: registry.SecretRef, Certs: registry.CertSecretRef,
				Proxy: registry.ProxySecretRef, Provider: registry.Provider, Insecure: registry.Insecure,
			})
		}
		add(access, registry.URL)
		add(access, told.FormerURLs...)
	}
	if r.records.URL != "" {
		add(r.records.Access, r.records.URL)
	}
	isThere := len(known) > 0
	add(r.records.Access, r.records.FormerURLs...)
	outside = told.Type == addonsv1.StorageTypeRegistry || told.Type == "" && isThere
	options.Known = known
	if outside && isThere {
		options.New = &known[0]
	}
	return options, outside
}

// reportRecordsLeft tells of records that cannot be deleted: each HelmOp once, for it is always the same.
func (r *Reconciler) reportRecordsLeft(scope *releaseScope, result helmclient.Result) {
	if result.PayloadsLeft == 0 {
		return
	}
	monitoring.RecordsLeft.Add(float64(result.PayloadsLeft))
	if scope.helmOp == nil {
		return
	}
	if _, known := r.recordsLeft.Get(scope.helmOp.UID); known {
		return
	}
	r.recordsLeft.Add(scope.helmOp.UID, true)
	r.recorder.Eventf(scope.helmOp, scope.release, corev1.EventTypeWarning, addonsv1.RecordsLeftEvent, "DeleteRecords",
		"%s", apiutil.Truncate(fmt.Sprintf(
			"Records that no release needs any more are left: %s; delete them by hand, or allow the credentials to delete, or "+
				"have a registry's own retention see to it",
			result.PayloadsLeftReason), report.MaxEventMessage))
}
