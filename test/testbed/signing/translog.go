// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
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
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"google.golang.org/protobuf/encoding/protojson"
)

const (
	logHost = "rekor.test"
	// logTree is the number of the log's tree, which version 1 names.
	logTree = 7
)

// transparencyLog is a log like Rekor, whose every entry is the only one.
type transparencyLog struct{ key *ecdsa.PrivateKey }

// entryBody is the JSON of an entry of version 1 with its kind and its body. Maps
// are written in the order of their keys, which is what makes it canonical.
func entryBody(kind string, spec map[string]any) ([]byte, error) {
	return json.Marshal(map[string]any{"apiVersion": "0.0.1", "kind": kind, "spec": spec})
}

func sha256Of(data []byte) map[string]any {
	sum := sha256.Sum256(data)
	return map[string]any{"algorithm": "sha256", "value": hex.EncodeToString(sum[:])}
}

// hashedRekord logs a signature of something by what certifies its key.
func (l *transparencyLog) hashedRekord(signed, sig, certificate []byte, at time.Time) (*protorekor.TransparencyLogEntry, error) {
	body, err := entryBody("hashedrekord", map[string]any{
		"data":      map[string]any{"hash": sha256Of(signed)},
		"signature": map[string]any{"content": sig, "publicKey": map[string]any{"content": certificate}},
	})
	if err != nil {
		return nil, err
	}
	return l.entry("hashedrekord", body, at)
}

// statement logs a signed statement.
func (l *transparencyLog) statement(envelope *protodsse.Envelope, certificate []byte, at time.Time) (*protorekor.TransparencyLogEntry, error) {
	sig := envelope.GetSignatures()[0].GetSig()
	whole, err := json.Marshal(dsse.Envelope{
		PayloadType: envelope.GetPayloadType(), Payload: base64.StdEncoding.EncodeToString(envelope.GetPayload()),
		Signatures: []dsse.Signature{{Sig: base64.StdEncoding.EncodeToString(sig)}},
	})
	if err != nil {
		return nil, err
	}
	body, err := entryBody("dsse", map[string]any{
		"envelopeHash": sha256Of(whole), "payloadHash": sha256Of(envelope.GetPayload()),
		"signatures": []any{map[string]any{"signature": base64.StdEncoding.EncodeToString(sig), "verifier": certificate}},
	})
	if err != nil {
		return nil, err
	}
	return l.entry("dsse", body, at)
}

// entry logs a body as version 1 does: with a promise, which signs the time, and
// with a proof that it is in the log.
func (l *transparencyLog) entry(kind string, body []byte, at time.Time) (*protorekor.TransparencyLogEntry, error) {
	id, err := logID(l.key.Public())
	if err != nil {
		return nil, err
	}
	signer, err := signature.LoadECDSASigner(l.key, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	hash := rfc6962.DefaultHasher.HashLeaf(body)
	checkpoint, err := util.CreateAndSignCheckpoint(context.Background(), logHost, logTree, 1, hash, signer)
	if err != nil {
		return nil, fmt.Errorf("log a signature: %w", err)
	}
	entry := &protorekor.TransparencyLogEntry{
		LogId: &protocommon.LogId{KeyId: id}, KindVersion: &protorekor.KindVersion{Kind: kind, Version: "0.0.1"},
		IntegratedTime: at.Unix(), CanonicalizedBody: body,
		InclusionProof: &protorekor.InclusionProof{RootHash: hash, TreeSize: 1, Checkpoint: &protorekor.Checkpoint{Envelope: string(checkpoint)}},
	}
	promised, err := json.Marshal(payloadOf(entry))
	if err != nil {
		return nil, err
	}
	promise, err := signer.SignMessage(bytes.NewReader(promised))
	if err != nil {
		return nil, err
	}
	entry.InclusionPromise = &protorekor.InclusionPromise{SignedEntryTimestamp: promise}
	return entry, nil
}

// payloadOf is what the log's promise signs.
func payloadOf(entry *protorekor.TransparencyLogEntry) map[string]any {
	return map[string]any{
		"body": entry.GetCanonicalizedBody(), "integratedTime": entry.GetIntegratedTime(),
		"logIndex": entry.GetLogIndex(), "logID": hex.EncodeToString(entry.GetLogId().GetKeyId()),
	}
}

// statementV2 logs a signed statement as version 2 does: with a proof only, and
// without a time.
func (l *transparencyLog) statementV2(bundle *protobundle.Bundle) (*protorekor.TransparencyLogEntry, error) {
	envelope := bundle.GetDsseEnvelope()
	sum := sha256.Sum256(dsse.PAE(envelope.GetPayloadType(), envelope.GetPayload()))
	body, err := protojson.Marshal(&rekortiles.Entry{ApiVersion: "0.0.2", Kind: "hashedrekord", Spec: &rekortiles.Spec{
		Spec: &rekortiles.Spec_HashedRekordV002{HashedRekordV002: &rekortiles.HashedRekordLogEntryV002{
			Data: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: sum[:]},
			Signature: &rekortiles.Signature{
				Content: envelope.GetSignatures()[0].GetSig(),
				Verifier: &rekortiles.Verifier{
					KeyDetails: protocommon.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256,
					Verifier:   &rekortiles.Verifier_X509Certificate{X509Certificate: bundle.GetVerificationMaterial().GetCertificate()},
				},
			},
		}},
	}})
	if err != nil {
		return nil, err
	}
	if body, err = jsoncanonicalizer.Transform(body); err != nil {
		return nil, err
	}
	hash := rfc6962.DefaultHasher.HashLeaf(body)
	sv, err := signature.LoadECDSASignerVerifier(l.key, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	signer, err := rekornote.NewNoteSigner(context.Background(), logHost, sv)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("%s\n1\n%s\n", logHost, base64.StdEncoding.EncodeToString(hash))
	checkpoint, err := note.Sign(&note.Note{Text: text}, signer)
	if err != nil {
		return nil, err
	}
	id, err := logID(l.key.Public())
	if err != nil {
		return nil, err
	}
	return &protorekor.TransparencyLogEntry{
		LogId: &protocommon.LogId{KeyId: id}, KindVersion: &protorekor.KindVersion{Kind: "hashedrekord", Version: "0.0.2"}, CanonicalizedBody: body,
		InclusionProof: &protorekor.InclusionProof{RootHash: hash, TreeSize: 1, Checkpoint: &protorekor.Checkpoint{Envelope: string(checkpoint)}},
	}, nil
}

// trusted returns the log as a trusted root has it.
func (l *transparencyLog) trusted(since time.Time) (map[string]*root.TransparencyLog, error) {
	id, err := logID(l.key.Public())
	if err != nil {
		return nil, err
	}
	return map[string]*root.TransparencyLog{hex.EncodeToString(id): {
		BaseURL: "https://" + logHost, ID: id, ValidityPeriodStart: since, HashFunc: crypto.SHA256,
		PublicKey: l.key.Public(), SignatureHashFunc: crypto.SHA256,
	}}, nil
}
