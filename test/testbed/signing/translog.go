// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	rekortiles "github.com/sigstore/rekor-tiles/v2/pkg/generated/protobuf"
	rekornote "github.com/sigstore/rekor-tiles/v2/pkg/note"
	"github.com/sigstore/rekor/pkg/util"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"google.golang.org/protobuf/encoding/protojson"
)

const (
	logHost = "rekor.test"
	// logTree is the number of the log's tree in checkpoints of version 1.
	logTree = 7
)

// transparencyLog is a log like Rekor. Each of its entries is the only one of a tree.
type transparencyLog struct{ logKey }

func (l transparencyLog) signer() signature.SignerVerifier {
	return must(signature.LoadECDSASignerVerifier(l.PrivateKey, crypto.SHA256))
}

func sha256Of(data []byte) map[string]any {
	sum := sha256.Sum256(data)
	return map[string]any{"algorithm": "sha256", "value": hex.EncodeToString(sum[:])}
}

// hashedRekord logs a signature by the key of a certificate.
func (l transparencyLog) hashedRekord(signed, sig, certificate []byte, at time.Time) *protorekor.TransparencyLogEntry {
	return l.entry("hashedrekord", at, map[string]any{
		"data":      map[string]any{"hash": sha256Of(signed)},
		"signature": map[string]any{"content": sig, "publicKey": map[string]any{"content": certificate}},
	})
}

// statement logs a signed statement.
func (l transparencyLog) statement(
	envelope *protodsse.Envelope, certificate []byte, at time.Time,
) *protorekor.TransparencyLogEntry {
	sig := base64.StdEncoding.EncodeToString(envelope.GetSignatures()[0].GetSig())
	whole := must(json.Marshal(dsse.Envelope{
		PayloadType: envelope.GetPayloadType(), Payload: base64.StdEncoding.EncodeToString(envelope.GetPayload()),
		Signatures: []dsse.Signature{{Sig: sig}},
	}))
	return l.entry("dsse", at, map[string]any{
		"envelopeHash": sha256Of(whole), "payloadHash": sha256Of(envelope.GetPayload()),
		"signatures": []any{map[string]any{"signature": sig, "verifier": certificate}},
	})
}

// entry logs as version 1 does: with a promise, which signs the time, and a proof of inclusion.
func (l transparencyLog) entry(kind string, at time.Time, spec map[string]any) *protorekor.TransparencyLogEntry {
	const version = "0.0.1"
	// The keys of a map are in order, as canonical JSON demands.
	body := must(json.Marshal(map[string]any{"apiVersion": version, "kind": kind, "spec": spec}))
	entry := l.prove(kind, version, body)
	entry.InclusionProof.Checkpoint.Envelope = string(must(util.CreateAndSignCheckpoint(
		context.Background(), logHost, logTree, 1, entry.GetInclusionProof().GetRootHash(), l.signer())))
	entry.IntegratedTime = at.Unix()
	promise := must(l.signer().SignMessage(bytes.NewReader(must(json.Marshal(payloadOf(entry))))))
	entry.InclusionPromise = &protorekor.InclusionPromise{SignedEntryTimestamp: promise}
	return entry
}

// prove returns an entry with its place in the tree. The checkpoint is still empty.
func (l transparencyLog) prove(kind, version string, body []byte) *protorekor.TransparencyLogEntry {
	return &protorekor.TransparencyLogEntry{
		LogId: &protocommon.LogId{KeyId: l.id()}, KindVersion: &protorekor.KindVersion{Kind: kind, Version: version},
		CanonicalizedBody: body,
		InclusionProof: &protorekor.InclusionProof{
			RootHash: rfc6962.DefaultHasher.HashLeaf(body), TreeSize: 1, Checkpoint: &protorekor.Checkpoint{},
		},
	}
}

// payloadOf returns what the promise of a log signs.
func payloadOf(entry *protorekor.TransparencyLogEntry) map[string]any {
	return map[string]any{
		"body": entry.GetCanonicalizedBody(), "integratedTime": entry.GetIntegratedTime(),
		"logIndex": entry.GetLogIndex(), "logID": hex.EncodeToString(entry.GetLogId().GetKeyId()),
	}
}

// statementV2 logs a signed statement in the form of version 2: with a proof of inclusion, and without a time.
func (l transparencyLog) statementV2(bundle *protobundle.Bundle) *protorekor.TransparencyLogEntry {
	const kind, version = "hashedrekord", "0.0.2"
	envelope := bundle.GetDsseEnvelope()
	sum := sha256.Sum256(dsse.PAE(envelope.GetPayloadType(), envelope.GetPayload()))
	record := &rekortiles.HashedRekordLogEntryV002{
		Data: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: sum[:]},
		Signature: &rekortiles.Signature{
			Content: envelope.GetSignatures()[0].GetSig(),
			Verifier: &rekortiles.Verifier{
				KeyDetails: protocommon.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256,
				Verifier: &rekortiles.Verifier_X509Certificate{
					X509Certificate: bundle.GetVerificationMaterial().GetCertificate(),
				},
			},
		},
	}
	body := must(protojson.Marshal(&rekortiles.Entry{
		ApiVersion: version, Kind: kind,
		Spec: &rekortiles.Spec{Spec: &rekortiles.Spec_HashedRekordV002{HashedRekordV002: record}},
	}))
	entry := l.prove(kind, version, must(jsoncanonicalizer.Transform(body)))
	hash := base64.StdEncoding.EncodeToString(entry.GetInclusionProof().GetRootHash())
	checkpoint := must(note.Sign(&note.Note{Text: fmt.Sprintf("%s\n1\n%s\n", logHost, hash)},
		must(rekornote.NewNoteSigner(context.Background(), logHost, l.signer()))))
	entry.InclusionProof.Checkpoint.Envelope = string(checkpoint)
	return entry
}
