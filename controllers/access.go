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
	"fmt"

	corev1 "k8s.io/api/core/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

// caKey is the key of a certSecretRef's Secret that holds the authorities to trust.
const caKey = "ca.crt"

// access reads what is needed to speak to the registry of a HelmOp.
func (r *referenceReader) access(ctx context.Context, helmOp *addonsv1.HelmOp) (oci.Access, error) {
	source := &helmOp.Spec.Source
	access := oci.Access{Insecure: source.Insecure}
	if source.SecretRef != nil {
		ref, err := r.read(ctx, kindSecret, helmOp.Namespace, source.SecretRef.Name)
		if err != nil {
			return access, fmt.Errorf("spec.source.secretRef: %w", err)
		}
		config, ok := ref.data[corev1.DockerConfigJsonKey]
		if !ok || ref.secretType != corev1.SecretTypeDockerConfigJson {
			return access, fmt.Errorf("spec.source.secretRef: Secret %s/%s must be of type %s: %w",
				helmOp.Namespace, source.SecretRef.Name, corev1.SecretTypeDockerConfigJson, errReferenceNotFound)
		}
		access.DockerConfigs = [][]byte{config}
	}
	if source.CertSecretRef != nil {
		ca, err := r.readKey(ctx, kindSecret, helmOp.Namespace, source.CertSecretRef.Name, caKey)
		if err != nil {
			return access, fmt.Errorf("spec.source.certSecretRef: %w", err)
		}
		access.CA = ca
	}
	return access, nil
}

// ociSource is the source of a HelmOp as the registry client knows it.
func ociSource(helmOp *addonsv1.HelmOp, access oci.Access) oci.Source {
	source := &helmOp.Spec.Source
	return oci.Source{
		URL:    source.URL,
		Ref:    oci.Reference{Tag: source.Ref.Tag, Digest: source.Ref.Digest, Semver: source.Ref.Semver},
		Access: access,
	}
}
