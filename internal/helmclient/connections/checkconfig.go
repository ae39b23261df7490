// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"errors"

	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/safeconfig"
)

// ErrInvalidTarget means that HelmOp does not accept a kubeconfig, for example because it runs a program.
var ErrInvalidTarget = errors.New("kubeconfig not accepted")

// CheckConfig returns an error of the kind [ErrInvalidTarget] for a config that must not be used, see
// [safeconfig.Refusal]. Observe, Act and Access call CheckConfig.
func CheckConfig(config *rest.Config) error {
	if config == nil {
		return helmerr.New(ErrInvalidTarget, "it is missing")
	}
	if why := safeconfig.Refusal(config); why != "" {
		return helmerr.New(ErrInvalidTarget, "%s", why)
	}
	return nil
}
