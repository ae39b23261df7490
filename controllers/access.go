/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controllers

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

// Keys of the Secrets that tell how to reach a registry.
const (
	// caKey holds the authorities to trust.
	caKey = "ca.crt"

	// proxyAddressKey, proxyUsernameKey and proxyPasswordKey hold the proxy.
	proxyAddressKey  = "address"
	proxyUsernameKey = "username"
	proxyPasswordKey = "password"
)

// access reads what is needed to speak to the registry of a HelmOp.
func (r *referenceReader) access(ctx context.Context, helmOp *addonsv1.HelmOp) (oci.Access, error) {
	access := oci.Access{Insecure: helmOp.Spec.Source.Insecure}
	if provider := helmOp.Spec.Source.Provider; provider != addonsv1.RegistryProviderGeneric {
		access.CloudProvider = string(provider)
	}
	steps := []func(context.Context, *addonsv1.HelmOp, *oci.Access) error{
		r.takeSecret,
		r.takePullSecrets,
		r.takeCertificates,
		r.takeProxy,
	}
	for _, step := range steps {
		if err := step(ctx, helmOp, &access); err != nil {
			return access, err
		}
	}
	return access, nil
}

// takeSecret takes the credentials of spec.source.secretRef.
func (r *referenceReader) takeSecret(ctx context.Context, helmOp *addonsv1.HelmOp, access *oci.Access) error {
	ref := helmOp.Spec.Source.SecretRef
	if ref == nil {
		return nil
	}
	secret, err := r.read(ctx, kindSecret, helmOp.Namespace, ref.Name)
	if err != nil {
		return fmt.Errorf("spec.source.secretRef: %w", err)
	}
	config, ok := dockerConfig(secret)
	if !ok {
		return fmt.Errorf("spec.source.secretRef: Secret %s/%s must be of type %s: %w",
			helmOp.Namespace, ref.Name, corev1.SecretTypeDockerConfigJson, errReferenceNotFound)
	}
	access.DockerConfigs = append(access.DockerConfigs, config)
	return nil
}

// takePullSecrets takes the credentials of the image pull secrets of spec.source.serviceAccountName. Those that do not exist or
// hold something else are passed over, as the kubelet does.
func (r *referenceReader) takePullSecrets(ctx context.Context, helmOp *addonsv1.HelmOp, access *oci.Access) error {
	name := helmOp.Spec.Source.ServiceAccountName
	if name == "" {
		return nil
	}
	account, err := r.read(ctx, kindServiceAccount, helmOp.Namespace, name)
	if err != nil {
		return fmt.Errorf("spec.source.serviceAccountName: %w", err)
	}
	for _, pullSecret := range account.pullSecrets {
		secret, err := r.read(ctx, kindSecret, helmOp.Namespace, pullSecret)
		if errors.Is(err, errReferenceNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("spec.source.serviceAccountName: %w", err)
		}
		if config, ok := dockerConfig(secret); ok {
			access.DockerConfigs = append(access.DockerConfigs, config)
		}
	}
	return nil
}

func dockerConfig(secret *reference) ([]byte, bool) {
	config, ok := secret.data[corev1.DockerConfigJsonKey]
	return config, ok && secret.secretType == corev1.SecretTypeDockerConfigJson
}

// takeCertificates takes the authorities and the client certificate of spec.source.certSecretRef.
func (r *referenceReader) takeCertificates(ctx context.Context, helmOp *addonsv1.HelmOp, access *oci.Access) error {
	ref := helmOp.Spec.Source.CertSecretRef
	if ref == nil {
		return nil
	}
	secret, err := r.read(ctx, kindSecret, helmOp.Namespace, ref.Name)
	if err != nil {
		return fmt.Errorf("spec.source.certSecretRef: %w", err)
	}
	access.CA, access.ClientCert, access.ClientKey = secret.data[caKey], secret.data[corev1.TLSCertKey], secret.data[corev1.TLSPrivateKeyKey]
	var missing string
	switch cert, key := len(access.ClientCert) > 0, len(access.ClientKey) > 0; {
	case cert && !key:
		missing = corev1.TLSPrivateKeyKey + ", which goes with " + corev1.TLSCertKey
	case key && !cert:
		missing = corev1.TLSCertKey + ", which goes with " + corev1.TLSPrivateKeyKey
	case !cert && len(access.CA) == 0:
		missing = caKey + ", or " + corev1.TLSCertKey + " and " + corev1.TLSPrivateKeyKey
	default:
		return nil
	}
	return fmt.Errorf("spec.source.certSecretRef: Secret %s/%s has no key %s: %w", helmOp.Namespace, ref.Name, missing, errReferenceNotFound)
}

// takeProxy takes the proxy of spec.source.proxySecretRef.
func (r *referenceReader) takeProxy(ctx context.Context, helmOp *addonsv1.HelmOp, access *oci.Access) error {
	ref := helmOp.Spec.Source.ProxySecretRef
	if ref == nil {
		return nil
	}
	secret, err := r.read(ctx, kindSecret, helmOp.Namespace, ref.Name)
	if err != nil {
		return fmt.Errorf("spec.source.proxySecretRef: %w", err)
	}
	access.Proxy = &oci.Proxy{
		Address:  string(secret.data[proxyAddressKey]),
		Username: string(secret.data[proxyUsernameKey]),
		Password: string(secret.data[proxyPasswordKey]),
	}
	if access.Proxy.Address == "" {
		return fmt.Errorf("spec.source.proxySecretRef: Secret %s/%s has no key %s: %w", helmOp.Namespace, ref.Name, proxyAddressKey, errReferenceNotFound)
	}
	return nil
}

// ociSource is a reference into the source of a HelmOp as the registry client knows it.
func ociSource(helmOp *addonsv1.HelmOp, ref addonsv1.ArtifactReference, access oci.Access) oci.Source {
	return oci.Source{
		URL:    helmOp.Spec.Source.URL,
		Ref:    oci.Reference{Tag: ref.Tag, Digest: ref.Digest, Semver: ref.Semver, TagFilter: ref.TagFilter},
		Access: access,
	}
}
