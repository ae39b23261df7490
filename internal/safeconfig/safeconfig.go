// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package safeconfig checks whether using a rest.Config would run a program, call a plugin or read a file of this
// process. Tenants write kubeconfigs, and must not be able to act as the manager. The package does not connect to a
// cluster. Callers must call [Refusal] before they use a config from a tenant.
package safeconfig

import "k8s.io/client-go/rest"

// Refusal returns why a config must not be used, with the names of kubeconfig fields. It returns an empty text for a
// config that contains only addresses and credentials.
func Refusal(config *rest.Config) string {
	switch {
	case config.ExecProvider != nil:
		return "it runs a program (exec); use a token or a client certificate"
	case config.AuthProvider != nil:
		return "it needs an auth-provider plugin; use a token or a client certificate"
	case config.CAFile != "":
		return "certificate-authority refers to a file; use certificate-authority-data"
	case config.CertFile != "":
		return "client-certificate refers to a file; use client-certificate-data"
	case config.KeyFile != "":
		return "client-key refers to a file; use client-key-data"
	case config.BearerTokenFile != "":
		return "tokenFile refers to a file; use token"
	default:
		return ""
	}
}
