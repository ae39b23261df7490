// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/safeconfig"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

// ErrKubeconfigRefused is wrapped by the error of a kubeconfig that must not be used.
var ErrKubeconfigRefused = errors.New("the kubeconfig is refused")

// SafeKubeconfigs returns a reader of kubeconfig Secrets. It refuses a kubeconfig with which the manager would run a
// program, read its own files or call a plugin. Otherwise a user who may write a Secret for a Cluster would get the
// rights of the manager.
func SafeKubeconfigs(reader client.Reader) client.Reader {
	results, _ := lru.New[[sha256.Size]byte, error](maxCheckedKubeconfigs) // fails only for a size below one
	return safeKubeconfigs{Reader: reader, results: results}
}

// maxCheckedKubeconfigs is the number of checked kubeconfigs in the cache.
const maxCheckedKubeconfigs = 16 << 10

type safeKubeconfigs struct {
	client.Reader

	// results caches the results of checks, by the digests of kubeconfigs. A kubeconfig is read with every probe of its
	// Cluster, and parsing it takes longer than the probe.
	results *lru.Cache[[sha256.Size]byte, error]
}

// Get implements client.Reader.
func (s safeKubeconfigs) Get(ctx context.Context, key client.ObjectKey, obj client.Object,
	options ...client.GetOption,
) error {
	if err := s.Reader.Get(ctx, key, obj, options...); err != nil {
		return err
	}
	kubeconfig, ok := obj.(*corev1.Secret)
	if !ok {
		return nil
	}
	data := kubeconfig.Data[secret.KubeconfigDataName]
	digest := sha256.Sum256(data)
	result, ok := s.results.Get(digest)
	if !ok {
		result = checkKubeconfig(data)
		s.results.Add(digest, result)
	}
	return result
}

// maxKubeconfig bounds a kubeconfig, with and without expanded YAML aliases. A usual kubeconfig has 30 values. The
// parse of the largest permitted one takes less than 3 MB, see [yamlweight.Weight.ParseCost].
var maxKubeconfig = yamlweight.Weight{Bytes: clusterlink.MaxKubeconfigBytes, Values: 2000}

// errTooLarge is the error of a kubeconfig that exceeds maxKubeconfig.
var errTooLarge = fmt.Errorf("%w: it has more than %d KiB or %d values; keep only the entries for this Cluster",
	ErrKubeconfigRefused, maxKubeconfig.Bytes>>10, maxKubeconfig.Values)

// checkKubeconfig returns an error if a kubeconfig contains more than addresses and credentials, even in a part that
// its current context does not use, or if its parse could take all memory. It does not build a REST config, because
// building one already reads files. It returns no error for a malformed kubeconfig: the caller that uses the kubeconfig
// fails.
func checkKubeconfig(data []byte) error {
	// Even the check for aliases parses a text with aliases.
	plain := yamlweight.Of(data)
	if plain.Bytes > maxKubeconfig.Bytes || plain.Values > maxKubeconfig.Values ||
		string(data) == clusterlink.LargeKubeconfig {
		return errTooLarge
	}
	switch err := yamlweight.Check(data, maxKubeconfig); {
	case errors.Is(err, yamlweight.ErrTag), errors.Is(err, yamlweight.ErrEncoding):
		return fmt.Errorf("%w: %w", ErrKubeconfigRefused, err)
	case err != nil: // The error of a parser may quote credentials.
		return fmt.Errorf("%w: its YAML aliases do not expand to at most %d KiB; write it without aliases",
			ErrKubeconfigRefused, maxKubeconfig.Bytes>>10)
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil //nolint:nilerr // The caller that uses the kubeconfig returns an error with the malformed place.
	}
	var parts []*rest.Config
	for _, cluster := range config.Clusters {
		if cluster != nil {
			parts = append(parts, &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: cluster.CertificateAuthority}})
		}
	}
	for _, user := range config.AuthInfos {
		if user != nil {
			parts = append(parts, &rest.Config{
				ExecProvider: user.Exec, AuthProvider: user.AuthProvider, BearerTokenFile: user.TokenFile,
				TLSClientConfig: rest.TLSClientConfig{CertFile: user.ClientCertificate, KeyFile: user.ClientKey},
			})
		}
	}
	for _, part := range parts {
		if why := safeconfig.Refusal(part); why != "" {
			return fmt.Errorf("%w: %s", ErrKubeconfigRefused, why)
		}
	}
	return nil
}
