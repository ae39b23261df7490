// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sources"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/version"
)

// registryFlags are the flags of commands that read a registry.
type registryFlags struct{ caFile, registryConfig string }

// add adds the flags.
func (r *registryFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.caFile, "ca-file", "",
		"File with PEM certificates of CAs to trust for the registry, in addition to the system's CAs.")
	cmd.Flags().StringVar(&r.registryConfig, "registry-config", "",
		"File with the Docker configuration, for registries without credentials in the HelmOp (default: Docker's own). "+
			"Credential helpers are not run.")
}

// client returns a client of registries and chart repositories. It keeps what it pulls in a folder.
func (r *registryFlags) client(folder string) (*sources.Client, error) {
	registries, err := oci.New(oci.Options{Dir: folder, UserAgent: "kubectl-helmop/" + version.Version,
		CredentialsFile: cmp.Or(r.registryConfig, DockerConfig()), CAFile: r.caFile})
	if err != nil {
		return nil, err
	}
	return sources.New(registries), nil
}

// DockerConfig returns the file with the Docker configuration of the user; empty if there is none.
func DockerConfig() string {
	folder := os.Getenv("DOCKER_CONFIG")
	if folder == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		folder = filepath.Join(home, ".docker")
	}
	file := filepath.Join(folder, "config.json")
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}

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
	// The kinds of credentials are not among those that the client of the other commands knows.
	reader, err := client.New(config, client.Options{Scheme: c.Scheme()})
	if err != nil {
		return nil, kube.Explain(err)
	}
	return &newest{registry, references.NewReader(reader, reader)}, nil
}

// versions returns the newest version that the HelmOp accepts and the newest version of the repository.
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
		case errors.Is(err, oci.ErrNoMatchingTag):
		case err != nil:
			return nil, err
		default:
			found = append(found, artifact.Version)
		}
	}
	return found, nil
}

// newerThan returns those of some versions that are newer than a version, without duplicates. Nothing is newer than an
// unknown version.
func newerThan(version string, versions []string) []string {
	var newer []string
	for _, other := range versions {
		if version != "" && other != "" && anyVersion.IsOlder(version, other) && !slices.Contains(newer, other) {
			newer = append(newer, other)
		}
	}
	return newer
}

// addNewer adds the newer versions in the registries to counts. A registry that cannot be read is noted.
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
	registry, err := v.registry.client(folder)
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
