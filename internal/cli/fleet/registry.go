// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sources"
)

// anyVersion refers to the highest version that is not a pre-release.
var anyVersion = oci.Reference{Semver: ">=0.0.0"}

// newest finds the newest versions in registries.
type newest struct {
	registry   *sources.Client
	references *references.Reader
}

// newNewest returns a newest for the management cluster. It uses the credentials of the HelmOps.
func newNewest(b *kube.Base, c *kube.Client, registry *sources.Client) (*newest, error) {
	config, err := b.RestConfig()
	if err != nil {
		return nil, err
	}
	// The client of the other commands does not know the kinds of credentials.
	reader, err := client.New(config, client.Options{Scheme: c.Scheme()})
	if err != nil {
		return nil, kube.Explain(err)
	}
	return &newest{registry, references.NewReader(reader, reader)}, nil
}

// versions returns two versions: the newest that the HelmOp accepts, and the newest in the repository.
func (n *newest) versions(ctx context.Context, helmOp *addonsv1.HelmOp) ([]string, error) {
	access, err := n.references.Access(ctx, helmOp)
	if err != nil {
		return nil, err
	}
	refs := []oci.Reference{anyVersion}
	if ref := helmOp.Spec.Source.Ref; ref.Semver+ref.TagFilter != "" {
		refs = []oci.Reference{{Semver: ref.Semver, TagFilter: ref.TagFilter}, anyVersion}
	}
	var found []string
	for _, ref := range refs {
		artifact, err := n.registry.Resolve(ctx,
			oci.Source{URL: apiutil.ArtifactURL(&helmOp.Spec.Source), Ref: ref, Access: access})
		switch {
		case errors.Is(err, ocierr.ErrNoMatchingTag):
		case err != nil:
			return nil, err
		default:
			found = append(found, artifact.Version)
		}
	}
	return found, nil
}

// newerThan returns the versions in a list that are newer than a version, without duplicates. If the version is not
// known, the result is empty.
func newerThan(version string, versions []string) []string {
	var newer []string
	for _, other := range versions {
		if version != "" && other != "" && anyVersion.IsOlder(version, other) && !slices.Contains(newer, other) {
			newer = append(newer, other)
		}
	}
	return newer
}

// addNewer adds the newer versions in the registries to counts. If a registry cannot be read, it prints a note.
func (v *versions) addNewer(ctx context.Context, c *kube.Client, helmOps map[client.ObjectKey]*addonsv1.HelmOp,
	counts []fleetview.VersionCount,
) (err error) {
	ctx, cancel := kube.Bounded(ctx, v.timeout)
	defer cancel()
	folder, err := os.MkdirTemp("", "kubectl-helmop-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	registry, err := v.registry.Client(folder)
	if err != nil {
		return err
	}
	defer registry.Close()
	n, err := newNewest(&v.Base, c, registry)
	if err != nil {
		return err
	}
	known := map[client.ObjectKey][]string{}
	for i := range counts {
		key := client.ObjectKey{Namespace: counts[i].Namespace, Name: counts[i].HelmOp}
		helmOp := helmOps[key]
		if helmOp == nil {
			continue
		}
		found, ok := known[key]
		if !ok {
			if found, err = n.versions(ctx, helmOp); err != nil {
				v.Note("warning: %v", fmt.Errorf("the versions of HelmOp %s cannot be read: %w", key.Name, err))
			}
			known[key] = found
		}
		counts[i].Newer = newerThan(counts[i].Version, found)
	}
	return nil
}
