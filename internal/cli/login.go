// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/registryaccess"
)

// login is the command "login".
type login struct {
	registryaccess.Flags
	username string
	stdin    bool
	streams  Streams
}

func newLogin(streams Streams) *cobra.Command {
	l := &login{streams: streams}
	cmd := &cobra.Command{
		Use:     "login HOST",
		Short:   "Check a credential and store it in the Docker configuration or its credential helper",
		Example: `  printenv TOKEN | kubectl helmop login registry.example.com --username me --password-stdin`,
		Args:    kube.Args(1, 1),
		RunE:    func(cmd *cobra.Command, args []string) error { return l.run(cmd, args[0]) },
	}
	l.Flags.Add(cmd.Flags())
	cmd.Flags().StringVarP(&l.username, "username", "u", "", "Username.")
	cmd.Flags().BoolVar(&l.stdin, "password-stdin", false,
		"Read the password or token from standard input (default: prompt for it).")
	return cmd
}

func (l *login) run(cmd *cobra.Command, host string) error {
	if l.username == "" {
		return kube.Usagef("--username is required")
	}
	password, err := l.password(cmd.Context())
	if err != nil {
		return err
	}
	reg, err := l.registry(host)
	if err != nil {
		return err
	}
	store, err := l.CredentialStore()
	if err != nil {
		return err
	}
	ctx, cancel := l.Bounded(cmd)
	defer cancel()
	if err := credentials.Login(ctx, store, reg, auth.Credential{Username: l.username, Password: password}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(l.streams.ErrOut, "logged in to %s\n", host)
	return err
}

// registry returns a client for a registry, without credentials.
func (l *login) registry(host string) (*remote.Registry, error) {
	reg, err := remote.NewRegistry(strings.TrimPrefix(host, registryaccess.Scheme))
	if err != nil {
		return nil, kube.Usagef("%q is not a host name of a registry: %v", host, err)
	}
	plain, err := l.HTTPClient()
	if err != nil {
		return nil, err
	}
	reg.PlainHTTP = l.PlainHTTP
	reg.Client = &auth.Client{Client: plain}
	return reg, nil
}

func (l *login) password(ctx context.Context) (string, error) {
	if l.stdin {
		return registryaccess.ReadPassword(l.streams.In)
	}
	password, err := registryaccess.PromptPassword(ctx, l.streams, "Password: ")
	if errors.Is(err, registryaccess.ErrNoTerminal) {
		return "", kube.Usagef("cannot prompt for the password, because %v; use --password-stdin", err)
	}
	return string(password), err
}

// newLogout returns the command "logout".
func newLogout(streams Streams) *cobra.Command {
	var flags registryaccess.Flags
	cmd := &cobra.Command{
		Use:     "logout HOST",
		Short:   "Remove a credential from the Docker configuration or its credential helper",
		Example: `  kubectl helmop logout registry.example.com`,
		Args:    kube.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := flags.CredentialStore()
			if err != nil {
				return err
			}
			if err := credentials.Logout(cmd.Context(), store, strings.TrimPrefix(args[0], registryaccess.Scheme)); err != nil {
				return err
			}
			_, err = fmt.Fprintf(streams.ErrOut, "logged out of %s\n", args[0])
			return err
		},
	}
	cmd.Flags().StringVar(&flags.Config, "registry-config", "",
		"File with the Docker configuration and its credentials (default: Docker's own).")
	return cmd
}
