// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"errors"

	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

// ErrInvalidTarget means that the way in which a kubeconfig authenticates is not accepted.
var ErrInvalidTarget = errors.New("kubeconfig not accepted")

// InClusterCA is the authority of the cluster that this program runs in. Cluster API puts it into the config of a
// management cluster that manages itself; it is public and the same for everyone.
const InClusterCA = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"

// CheckConfig returns an error of the kind [ErrInvalidTarget] if using the config would run a program or read a file of
// this process: kubeconfigs are written by tenants, and the programs and files are not theirs. Observe, Act and
// Access call it.
func CheckConfig(config *rest.Config) error {
	var refused string
	switch {
	case config == nil:
		return helmerr.New(ErrInvalidTarget, "there is none")
	case config.ExecProvider != nil:
		refused = "an exec plugin"
	case config.AuthProvider != nil:
		refused = "an auth provider"
	case config.BearerTokenFile != "":
		refused = "a token file"
	case config.CertFile != "" || config.KeyFile != "":
		refused = "a file with a client certificate or its key"
	case config.CAFile != "" && config.CAFile != InClusterCA:
		refused = "a file with a certificate authority"
	default:
		return nil
	}
	return helmerr.New(ErrInvalidTarget, "it refers to %s; put the certificates or the token into the kubeconfig itself", refused)
}
