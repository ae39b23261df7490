// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suite starts the manager of a suite: tests of one reconciler on a real API server, through API objects only.
// It imports no reconciler: the suite passes a function that adds its reconciler to the manager.
package suite

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/watches"
)

// crdTimeout is the timeout for the installation of the CustomResourceDefinitions. The default of envtest is too short
// for a busy machine.
const crdTimeout = 2 * time.Minute

// Setup adds a reconciler to a manager. kinds already belongs to the manager.
type Setup func(ctx context.Context, mgr ctrl.Manager, kinds *kindcache.Kinds) error

// StartManager installs the CustomResourceDefinitions of HelmOp and those in more folders, and starts a manager with
// one reconciler. The tests of the suite share the manager, so it runs until the process ends. The result is a client
// without a cache. The working directory must be the package of a reconciler, as in its tests.
func StartManager(config *rest.Config, setup Setup, crds ...string) (client.WithWatch, error) {
	crds = append(crds, filepath.Join("..", "..", "config", "crd", "bases"))
	if _, err := envtest.InstallCRDs(config,
		envtest.CRDInstallOptions{Paths: crds, ErrorIfPathMissing: true, MaxTime: crdTimeout}); err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, addonsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true,
			DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
	})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if err := watches.SetupIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, err
	}
	kinds := kindcache.New(kindcache.Options{
		Reader: mgr.GetClient(), Informers: mgr.GetCache(),
		Review: kindcache.Reviewer(mgr.GetClient(), mgr.GetRESTMapper(), ""),
		Own:    []schema.GroupVersionKind{clusterv1.GroupVersion.WithKind("Cluster")},
	})
	if err := errors.Join(mgr.Add(kinds), setup(ctx, mgr, kinds)); err != nil {
		return nil, err
	}
	uncached, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	go func() { _ = mgr.Start(ctx) }()
	return uncached, nil
}
