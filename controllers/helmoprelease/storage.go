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

// maxHelmOpsWithRecordsLeft is the number of HelmOps in memory, at most, that have an Event about records that could
// not be deleted.
const maxHelmOpsWithRecordsLeft = 4096

func newRecordsLeft() *lru.Cache[types.UID, bool] {
	cache, err := lru.New[types.UID, bool](maxHelmOpsWithRecordsLeft)
	if err != nil {
		panic(err) // lru.New fails only if the size is not positive.
	}
	return cache
}

// RecordStorage configures the storage of records outside of their clusters.
type RecordStorage struct {
	// Registries are the clients of the registries with records; nil if there are none.
	Registries *payloadregistry.Registries

	// URL is the repository for HelmOps that do not configure their own storage. If it is empty, the records of these
	// HelmOps are in the workload clusters. FormerURLs are earlier values of URL. Access returns the credentials and the
	// settings for all of them.
	URL        string
	FormerURLs []string
	Access     func(ctx context.Context) (oci.Access, error)
}

// storage returns the storage of a release's records, without a request. Like the deletion policy, it is the storage of
// the HelmOp if the HelmOp exists, because credentials may have been replaced after the spec was assigned to the
// release.
func (r *Reconciler) storage(scope *releaseScope) model.Storage {
	if r.records.Registries == nil {
		return model.Storage{}
	}
	spec := scope.release.Spec.Storage
	if scope.helmOp != nil {
		spec = scope.helmOp.Spec.Storage
	}
	options, outside := r.recordRepositories(spec, scope.release.Namespace)
	options.Cluster = apiutil.ClusterKey(scope.release).String()
	return model.Storage{Store: r.records.Registries.Store(options), Outside: outside}
}

// recordRepositories returns the repositories that may have records, and whether new records are stored outside of the
// cluster.
func (r *Reconciler) recordRepositories(spec *addonsv1.RecordStorage,
	namespace string,
) (options payloadregistry.Options, outside bool) {
	if spec == nil {
		spec = &addonsv1.RecordStorage{}
	}
	var known []payloadregistry.Repository
	add := func(access func(context.Context) (oci.Access, error), urls ...string) {
		for _, url := range urls {
			known = append(known, payloadregistry.Repository{URL: url, Access: access})
		}
	}
	if registry := spec.Registry; registry != nil {
		access := func(ctx context.Context) (oci.Access, error) {
			return r.references.AccessBy(ctx, &references.RegistryRefs{
				Field: "spec.storage.registry", Namespace: namespace, Secret: registry.SecretRef, Certs: registry.CertSecretRef,
				Proxy: registry.ProxySecretRef, Provider: registry.Provider, Insecure: registry.Insecure,
			})
		}
		add(access, registry.URL)
		add(access, spec.FormerURLs...)
	}
	if r.records.URL != "" {
		add(r.records.Access, r.records.URL)
	}
	hasRepository := len(known) > 0
	add(r.records.Access, r.records.FormerURLs...)
	outside = spec.Type == addonsv1.StorageTypeRegistry || spec.Type == "" && hasRepository
	options.Known = known
	if outside && hasRepository {
		options.New = &known[0]
	}
	return options, outside
}

// reportRecordsLeft counts records that could not be deleted, and records an Event once for each HelmOp, because the
// cause rarely changes.
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
			"Records that no release needs could not be deleted: %s; delete them by hand, permit the credentials to delete, "+
				"or configure the retention of the registry", result.PayloadsLeftReason), report.MaxEventMessage))
}
