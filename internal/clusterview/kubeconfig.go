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
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrKubeconfigRefused wraps what is wrong with a kubeconfig that must not be used.
var ErrKubeconfigRefused = errors.New("the kubeconfig is refused")

// SafeKubeconfigs returns a reader of kubeconfig Secrets that refuses those which would make the manager run a program, read
// its own files or call a plugin: who may write a Secret beside a Cluster must not act as the manager.
func SafeKubeconfigs(reader client.Reader) client.Reader {
	verdicts, _ := lru.New[[sha256.Size]byte, error](maxVerdicts) // It fails only if the size is not positive.
	return safeKubeconfigs{Reader: reader, verdicts: verdicts}
}

// maxVerdicts bounds how many kubeconfigs are remembered that were checked.
const maxVerdicts = 16 << 10

type safeKubeconfigs struct {
	client.Reader

	// verdicts are what was found of kubeconfigs, by their digest: each is read with every probe of its Cluster, and parsing it takes
	// longer than the probe.
	verdicts *lru.Cache[[sha256.Size]byte, error]
}

// Get implements client.Reader.
func (s safeKubeconfigs) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
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

// checkKubeconfig refuses a kubeconfig that is more than addresses and credentials. One that cannot be read is left to who
// uses it.
func checkKubeconfig(data []byte) error {
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil //nolint:nilerr // It is refused by who uses it, with an error that says where it is malformed.
	}
	for _, cluster := range config.Clusters {
		if cluster != nil && cluster.CertificateAuthority != "" {
			return refused("certificate-authority names a file; use certificate-authority-data")
		}
	}
	for _, user := range config.AuthInfos {
		if err := checkUser(user); err != nil {
			return err
		}
	}
	return nil
}

func checkUser(user *clientcmdapi.AuthInfo) error {
	switch {
	case user == nil:
		return nil
	case user.Exec != nil:
		return refused("it runs a program (exec); use a token or a client certificate")
	case user.AuthProvider != nil:
		return refused("it needs an auth-provider plugin; use a token or a client certificate")
	case user.ClientCertificate != "":
		return refused("client-certificate names a file; use client-certificate-data")
	case user.ClientKey != "":
		return refused("client-key names a file; use client-key-data")
	case user.TokenFile != "":
		return refused("tokenFile names a file; use token")
	default:
		return nil
	}
}

func refused(why string) error { return fmt.Errorf("%w: %s", ErrKubeconfigRefused, why) }
