// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package references

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/chartrepo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// The keys of the Secrets with settings for the access to a registry.
const (
	// caKey holds the trusted certificate authorities.
	caKey = "ca.crt"

	// proxyAddressKey, proxyUsernameKey and proxyPasswordKey hold the proxy.
	proxyAddressKey  = "address"
	proxyUsernameKey = "username"
	proxyPasswordKey = "password"
)

// Kubernetes does not limit the image pull secrets of a ServiceAccount, and the credentials are copied into memory.
const (
	// maxPullSecrets is the maximum number of image pull secrets of a ServiceAccount. Each name counts once.
	maxPullSecrets = 64
	// maxPullSecretBytes is the maximum total size of these Secrets. Kubernetes limits each to 1 MiB.
	maxPullSecretBytes = 2 << 20
)

// RegistryRefs are the references of a HelmOp for the access to a registry.
type RegistryRefs struct {
	// Field is the path of the references in messages: "spec.source", or another field of the same form.
	Field, Namespace string
	// ChartRepository is the URL of the chart repository; empty for a registry.
	ChartRepository      string
	Secret, Certs, Proxy *addonsv1.SecretReference
	serviceAccount       string
	Provider             addonsv1.RegistryProvider
	Insecure             bool
}

// Access reads the settings for the access to the registry of a HelmOp.
func (r *Reader) Access(ctx context.Context, helmOp *addonsv1.HelmOp) (oci.Access, error) {
	source := &helmOp.Spec.Source
	repository := ""
	if chartrepo.IsURL(source.URL) {
		repository = source.URL
	}
	return r.AccessBy(ctx, &RegistryRefs{
		ChartRepository: repository, Field: "spec.source", Namespace: helmOp.Namespace, Secret: source.SecretRef,
		Certs:          source.CertSecretRef,
		Proxy:          source.ProxySecretRef,
		serviceAccount: source.ImagePullServiceAccountName, Provider: source.Provider, Insecure: source.Insecure,
	})
}

// AccessBy reads the settings for the access to a registry from references.
func (r *Reader) AccessBy(ctx context.Context, refs *RegistryRefs) (oci.Access, error) {
	access := oci.Access{Insecure: refs.Insecure}
	if refs.Provider != addonsv1.RegistryProviderGeneric {
		access.CloudProvider = string(refs.Provider)
	}
	steps := []func(context.Context, *RegistryRefs, *oci.Access) error{
		r.addSecret,
		r.addPullSecrets,
		r.addCertificates,
		r.addProxy,
	}
	for _, step := range steps {
		if err := step(ctx, refs, &access); err != nil {
			return access, err
		}
	}
	return access, nil
}

// addSecret adds the credentials of secretRef.
func (r *Reader) addSecret(ctx context.Context, refs *RegistryRefs, access *oci.Access) error {
	if refs.Secret == nil {
		return nil
	}
	secret, err := r.read(ctx, apiutil.KindSecret, refs.Namespace, refs.Secret.Name)
	if err != nil {
		return fmt.Errorf("%s.secretRef: %w", refs.Field, err)
	}
	config, ok := dockerConfig(secret)
	if !ok && refs.ChartRepository != "" {
		if config, ok = basicAuth(secret, refs.ChartRepository); !ok {
			return fmt.Errorf("%s.secretRef: Secret %s/%s must have the keys %s and %s, or the type %s: %w; add the keys",
				refs.Field, refs.Namespace, refs.Secret.Name, corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey,
				corev1.SecretTypeDockerConfigJson, ErrReferenceNotFound)
		}
	}
	if !ok {
		return fmt.Errorf("%s.secretRef: Secret %s/%s must have type %s and key %s: %w; delete the Secret and create it "+
			"with this type, or correct the reference", refs.Field, refs.Namespace, refs.Secret.Name,
			corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, ErrReferenceNotFound)
	}
	access.DockerConfigs = append(access.DockerConfigs, config)
	return nil
}

// addPullSecrets adds the credentials of the image pull secrets of imagePullServiceAccountName. It skips Secrets that
// do not exist or have another type, as the kubelet does. If the Secrets exceed a limit, the error is ErrInvalidAccess.
func (r *Reader) addPullSecrets(ctx context.Context, refs *RegistryRefs, access *oci.Access) error {
	if refs.serviceAccount == "" {
		return nil
	}
	account, err := r.read(ctx, apiutil.KindServiceAccount, refs.Namespace, refs.serviceAccount)
	if err != nil {
		return fmt.Errorf("%s.imagePullServiceAccountName: %w", refs.Field, err)
	}
	refused := func(detail string, limit int) error {
		return fmt.Errorf("%s.imagePullServiceAccountName: %w", refs.Field, &ocierr.Error{
			Op: "read ServiceAccount", Subject: refs.Namespace + "/" + refs.serviceAccount, Kind: ocierr.ErrInvalidAccess,
			Detail: fmt.Sprintf(detail, limit), Hint: "remove image pull secrets from it, or set secretRef instead"})
	}
	if len(account.pullSecrets) > maxPullSecrets {
		return refused("it has more than %d image pull secrets", maxPullSecrets)
	}
	size := int64(0)
	for _, pullSecret := range account.pullSecrets {
		secret, err := r.read(ctx, apiutil.KindSecret, refs.Namespace, pullSecret)
		if errors.Is(err, ErrReferenceNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s.imagePullServiceAccountName: %w", refs.Field, err)
		}
		if size += secret.size(); size > maxPullSecretBytes {
			return refused("its image pull secrets have more than %d bytes together", maxPullSecretBytes)
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

// basicAuth returns the username and the password in a Secret as a Docker config for the host of a chart repository.
func basicAuth(secret *reference, repository string) ([]byte, bool) {
	username, hasName := secret.data[corev1.BasicAuthUsernameKey]
	password, hasPassword := secret.data[corev1.BasicAuthPasswordKey]
	site, err := url.Parse(repository)
	if !hasName || !hasPassword || err != nil {
		return nil, false
	}
	config, err := json.Marshal(map[string]any{"auths": map[string]any{
		site.Host: map[string]string{"username": string(username), "password": string(password)},
	}})
	return config, err == nil
}

// addCertificates adds the authorities and the client certificate of certSecretRef.
func (r *Reader) addCertificates(ctx context.Context, refs *RegistryRefs, access *oci.Access) error {
	ref := refs.Certs
	if ref == nil {
		return nil
	}
	secret, err := r.read(ctx, apiutil.KindSecret, refs.Namespace, ref.Name)
	if err != nil {
		return fmt.Errorf("%s.certSecretRef: %w", refs.Field, err)
	}
	access.CA, access.ClientCert, access.ClientKey = secret.data[caKey], secret.data[corev1.TLSCertKey],
		secret.data[corev1.TLSPrivateKeyKey]
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
	return fmt.Errorf("%s.certSecretRef: Secret %s/%s has no key %s: %w", refs.Field, refs.Namespace, ref.Name, missing,
		ErrReferenceNotFound)
}

// addProxy adds the proxy of proxySecretRef.
func (r *Reader) addProxy(ctx context.Context, refs *RegistryRefs, access *oci.Access) error {
	ref := refs.Proxy
	if ref == nil {
		return nil
	}
	secret, err := r.read(ctx, apiutil.KindSecret, refs.Namespace, ref.Name)
	if err != nil {
		return fmt.Errorf("%s.proxySecretRef: %w", refs.Field, err)
	}
	access.Proxy = &credentials.Proxy{
		Address:  string(secret.data[proxyAddressKey]),
		Username: string(secret.data[proxyUsernameKey]),
		Password: string(secret.data[proxyPasswordKey]),
	}
	if access.Proxy.Address == "" {
		return fmt.Errorf("%s.proxySecretRef: Secret %s/%s has no key %s: %w", refs.Field, refs.Namespace, ref.Name,
			proxyAddressKey, ErrReferenceNotFound)
	}
	return nil
}

// OciSource returns the source for the clients of registries and chart repositories, for a reference in a HelmOp.
func OciSource(helmOp *addonsv1.HelmOp, ref addonsv1.ArtifactReference, access oci.Access) oci.Source {
	return oci.Source{
		URL:    apiutil.ArtifactURL(&helmOp.Spec.Source),
		Ref:    oci.Reference{Tag: ref.Tag, Digest: ref.Digest, Semver: ref.Semver, TagFilter: ref.TagFilter},
		Access: access,
	}
}
