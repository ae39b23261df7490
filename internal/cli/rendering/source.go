// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/registryaccess"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	payloadregistry "github.com/helmop/cluster-api-addon-provider-helmop/internal/payload/registry"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordstorage"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// Source pulls charts for commands.
type Source struct {
	registryaccess.ReadFlags
	// registries is the client for registries. Set by options.
	registries *oci.Client
}

// options returns the parts that pull, verify and render charts. Charts are stored in a folder until end is called.
func (s *Source) options() (options preview.Options, end func() error, err error) {
	folder, err := os.MkdirTemp("", "kubectl-helmop-")
	if err != nil {
		return options, nil, err
	}
	end = func() error { return os.RemoveAll(folder) }
	defer func() {
		if err != nil {
			err = errors.Join(err, end())
		}
	}()
	registry, err := s.Client(filepath.Join(folder, "artifacts"))
	if err != nil {
		return options, nil, err
	}
	s.registries = registry.Registries()
	verifier, err := verification.New(verification.Options{Registry: s.registries, Provenance: registry,
		Dir: filepath.Join(folder, "sigstore")})
	if err != nil {
		return options, nil, err
	}
	// A chart is not trusted code, so a child process of this program renders it.
	renderers := sandbox.NewPool(sandbox.Options{})
	return preview.Options{Registry: registry, Charts: bundle.NewLoader(bundle.Limits{}, renderers), Verifier: verifier,
		Engine:  helmclient.New(renderers),
		Records: recordstorage.Options{Registries: payloadregistry.New(s.registries)},
	}, end, nil
}

// Previewer returns a Previewer that resolves references, with the permissions of the user. wrap replaces its reader of
// the management cluster; nil means no replacement. Callers must call end when they need no more charts.
func (s *Source) Previewer(c *kube.Client, b *kube.Base, wrap func(client.Reader) client.Reader,
) (previewer *preview.Previewer, end func() error, err error) {
	options, end, err := s.options()
	if err != nil {
		return nil, nil, err
	}
	options.Resolves = true
	if previewer, err = newPreviewer(c, options, b, wrap); err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return previewer, end, nil
}

// newPreviewer returns a Previewer with the permissions of the user. wrap replaces its reader of the management
// cluster; nil means no replacement.
func newPreviewer(c *kube.Client, options preview.Options, b *kube.Base,
	wrap func(client.Reader) client.Reader,
) (*preview.Previewer, error) {
	var err error
	if options.Config, err = b.RestConfig(); err != nil {
		return nil, err
	}
	// A preview of many Clusters reads several objects of each Cluster.
	options.Config.QPS, options.Config.Burst = 200, 400
	// Templates read objects of any kind, so this client discovers kinds.
	if options.Client, err = client.New(options.Config, client.Options{Scheme: c.Scheme()}); err != nil {
		return nil, kube.Explain(err)
	}
	if wrap != nil {
		options.Client = wrap(options.Client)
	}
	return preview.New(options), nil
}

// Groups returns the changes that a HelmOp would make in its Clusters. The HelmOp does not need to exist. Secrets are
// hidden. wrap returns a reader of the management cluster that shows planned changes of Clusters. With nil, the
// Clusters are unchanged.
func (s *Source) Groups(ctx context.Context, b *kube.Base, helmOp *addonsv1.HelmOp,
	wrap func(client.Reader) client.Reader,
) (groups []preview.Group, err error) {
	management, err := b.Connect()
	if err != nil {
		return nil, err
	}
	stored := helmOp.DeepCopy()
	if err := storeDry(ctx, management, stored); err != nil {
		return nil, kube.Explain(err)
	}
	previewer, end, err := s.Previewer(management, b, wrap)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	clusters, err := previewer.Selected(ctx, stored, nil)
	if err != nil {
		return nil, kube.Explain(err)
	}
	results, err := previewer.Clusters(ctx, stored, clusters, nil, []byte(rand.Text()))
	if err != nil {
		return nil, kube.Explain(err)
	}
	return preview.GroupResults(results)
}
