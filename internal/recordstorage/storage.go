// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstorage

import (
	"context"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	payloadregistry "github.com/helmop/cluster-api-addon-provider-helmop/internal/payload/registry"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
)

// Options configure the storage of records outside of their clusters.
type Options struct {
	// Registries are the clients of the registries with records; nil if there are none.
	Registries *payloadregistry.Registries

	// URL is the repository for HelmOps that do not configure their own storage. If it is empty, the records of such
	// HelmOps are in the workload clusters. FormerURLs are earlier values of URL. Access returns the credentials and the
	// settings for URL and FormerURLs.
	URL        string
	FormerURLs []string
	Access     func(ctx context.Context) (oci.Access, error)
}

// Of returns the storage of the records of a release. It sends no request. If the HelmOp exists, the storage in the
// HelmOp applies, because its credentials may have been replaced after the spec was assigned to the release. reader
// reads the credentials when they are needed.
func (o *Options) Of(release *addonsv1.HelmOpRelease, helmOp *addonsv1.HelmOp,
	reader *references.Reader,
) model.Storage {
	if o.Registries == nil {
		return model.Storage{}
	}
	spec := release.Spec.Storage
	if helmOp != nil {
		spec = helmOp.Spec.Storage
	}
	options, outside := o.repositories(spec, release.Namespace, reader)
	options.Cluster = apiutil.ClusterKey(release).String()
	return model.Storage{Store: o.Registries.Store(options), Outside: outside}
}

// repositories returns the repositories that may have records. The second result is true if new records are stored
// outside of the cluster.
func (o *Options) repositories(spec *addonsv1.RecordStorage, namespace string,
	reader *references.Reader,
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
			return reader.AccessBy(ctx, &references.RegistryRefs{
				Field: "spec.storage.registry", Namespace: namespace, Secret: registry.SecretRef, Certs: registry.CertSecretRef,
				Proxy: registry.ProxySecretRef, Provider: registry.Provider, Insecure: registry.Insecure,
			})
		}
		add(access, registry.URL)
		add(access, spec.FormerURLs...)
	}
	if o.URL != "" {
		add(o.Access, o.URL)
	}
	hasRepository := len(known) > 0
	add(o.Access, o.FormerURLs...)
	outside = spec.Type == addonsv1.StorageTypeRegistry || spec.Type == "" && hasRepository
	options.Known = known
	if outside && hasRepository {
		options.New = &known[0]
	}
	return options, outside
}
