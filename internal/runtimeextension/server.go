// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimeextension

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"

	"k8s.io/utils/ptr"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// answerTimeoutSeconds is the timeout of Cluster API for a call. It is short because the hooks read only caches.
const answerTimeoutSeconds = 5

// Options are the settings of the Runtime Extension.
type Options struct {
	// Port is the port to listen on. Required.
	Port int

	// CertDir is the folder with the certificate tls.crt and its key tls.key. Both are read again when they change.
	// Required.
	CertDir string

	// Namespace is the namespace that the manager serves. Empty means all namespaces.
	Namespace string

	// ClientCA is the file in CertDir with the CA of the client certificate of Cluster API. It is read at each handshake.
	// Empty accepts all clients.
	ClientCA string

	// WatchFilter and Shard are WatchFilterValue and Shard of controllers.Options.
	WatchFilter, Shard string
}

// SetupWithManager adds the Runtime Extension to a manager. It runs in each replica.
func SetupWithManager(ctx context.Context, mgr ctrl.Manager, options Options) error {
	catalog := runtimecatalog.New()
	if err := runtimehooksv1.AddToCatalog(catalog); err != nil {
		return err
	}
	tlsOptions := []func(*tls.Config){func(config *tls.Config) { config.MinVersion = tls.VersionTLS12 }}
	if options.ClientCA != "" {
		// The server's own option would read the CA only once.
		file := filepath.Join(options.CertDir, options.ClientCA)
		if _, err := readClientCA(file); err != nil {
			return err
		}
		tlsOptions = append(tlsOptions, func(config *tls.Config) { requireClientCA(config, file) })
	}
	s, err := server.New(server.Options{
		Catalog: catalog, Port: options.Port, CertDir: options.CertDir, TLSOpts: tlsOptions,
	})
	if err != nil {
		return err
	}
	s.Server = newLimitedServer(s.Server)
	// Replicas that are not the leader run no controllers, so the extension itself makes the cache read Clusters.
	if _, err := mgr.GetCache().GetInformer(ctx, apiutil.NewCluster(), cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watching Clusters: %w", err)
	}
	h := newHooks(mgr.GetClient(), options)
	for _, handler := range h.handlers(options.Shard) {
		handler.TimeoutSeconds = ptr.To[int32](answerTimeoutSeconds)
		handler.FailurePolicy = ptr.To(runtimehooksv1.FailurePolicyFail)
		if err := s.AddExtensionHandler(handler); err != nil {
			return fmt.Errorf("adding the hook %s: %w", handler.Name, err)
		}
	}
	started := s.StartedChecker()
	if err := mgr.AddReadyzCheck("runtime-extension", func(req *http.Request) error { return started(req) }); err != nil {
		return err
	}
	return mgr.Add(s)
}

// handlers returns the handlers of the hooks. Their names are in the paths of calls. A shard has its own suffix in the
// names. So the manager of another shard refuses a call that reaches it by mistake. Otherwise it would answer that the
// Cluster need not wait.
func (h *hooks) handlers(shard string) []server.ExtensionHandler {
	suffix := ""
	if shard != "" {
		suffix = "-" + apiutil.HexDigest(shard)[:8]
	}
	return []server.ExtensionHandler{
		{Name: "before-cluster-delete" + suffix, Hook: runtimehooksv1.BeforeClusterDelete,
			HandlerFunc: h.beforeClusterDelete},
		{Name: "before-control-plane-upgrade" + suffix, Hook: runtimehooksv1.BeforeControlPlaneUpgrade,
			HandlerFunc: h.beforeControlPlaneUpgrade},
		{Name: "before-workers-upgrade" + suffix, Hook: runtimehooksv1.BeforeWorkersUpgrade,
			HandlerFunc: h.beforeWorkersUpgrade},
	}
}
