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

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/safeconfig"
)

// ErrKubeconfigRefused wraps what is wrong with a kubeconfig that must not be used.
var ErrKubeconfigRefused = errors.New("the kubeconfig is refused")

// SafeKubeconfigs returns a reader of kubeconfig Secrets that refuses those which would make the manager run a program,
// read its own files or call a plugin: who may write a Secret beside a Cluster must not act as the manager.
func SafeKubeconfigs(reader client.Reader) client.Reader {
	verdicts, _ := lru.New[[sha256.Size]byte, error](maxVerdicts) // It fails only if the size is not positive.
	return safeKubeconfigs{Reader: reader, verdicts: verdicts}
}

// maxVerdicts bounds how many kubeconfigs are remembered that were checked.
const maxVerdicts = 16 << 10

type safeKubeconfigs struct {
	client.Reader

	// verdicts are what was found of kubeconfigs, by their digest: each is read with every probe of its Cluster, and
	// parsing it takes longer than the probe.
	verdicts *lru.Cache[[sha256.Size]byte, error]
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
	verdict, ok := s.verdicts.Get(digest)
	if !ok {
		verdict = checkKubeconfig(data)
		s.verdicts.Add(digest, verdict)
	}
	return verdict
}

// checkKubeconfig refuses a kubeconfig that is more than addresses and credentials, also in what its context does not
// use. It makes no config of the kubeconfig: that alone reads files. One that cannot be read is left to who uses it.
func checkKubeconfig(data []byte) error {
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil //nolint:nilerr // It is refused by who uses it, with an error that says where it is malformed.
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
