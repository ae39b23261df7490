// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registryaccess

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sources"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/version"
)

// ReadFlags are the flags of commands that read registries and chart repositories for HelmOps.
type ReadFlags struct {
	// CAFile is a file with CAs that are trusted in addition to the CAs of the system.
	CAFile string
	// Config is the file of the Docker configuration. If it is empty, Docker's own file is used.
	Config string
}

// Add adds the flags.
func (r *ReadFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.CAFile, "ca-file", "",
		"File with PEM certificates of CAs to trust for the registry, in addition to the system's CAs.")
	cmd.Flags().StringVar(&r.Config, "registry-config", "",
		"File with the Docker configuration, for registries without credentials in the HelmOp (default: Docker's own). "+
			"Credential helpers are not run.")
}

// Client returns a client of registries and chart repositories. It stores pulled content in a folder.
func (r *ReadFlags) Client(folder string) (*sources.Client, error) {
	registries, err := oci.New(oci.Options{Dir: folder, UserAgent: "kubectl-helmop/" + version.Version,
		CredentialsFile: cmp.Or(r.Config, DockerConfig()), CAFile: r.CAFile})
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
