#pragma once

// The C face of the Rust static library: tokenizers, chat templates, safetensors headers. That of
// guides is in baton_guide.h.
//
// Every function catches panics. A function that can fail returns a BatonStatus and, unless it is
// BATON_OK, fills `error` with a message to be freed by baton_buffer_free. Handles are immutable:
// any thread may use them at once; only the free functions need exclusive access.

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  BATON_OK = 0,
  BATON_NOT_FOUND = 1,  // the file is not there
  BATON_INVALID = 2,    // a file or an argument is wrong; the message says how
  BATON_INTERNAL = 3,   // a panic of the library
  BATON_BUSY = 4,       // the machine could not do it now, which says nothing of what was asked
} BatonStatus;

// Borrowed bytes; null data only with size 0.
typedef struct {
  const uint8_t* data;
  size_t size;
} BatonSlice;

// Bytes and ids that the caller owns and frees.
typedef struct {
  uint8_t* data;
  size_t size;
} BatonBuffer;
typedef struct {
  uint32_t* data;
  size_t size;
} BatonIds;
void baton_buffer_free(BatonBuffer buffer);
void baton_ids_free(BatonIds ids);

// ---- tokenizers ----
typedef struct BatonTokenizer BatonTokenizer;
typedef struct {
  BatonSlice text;   // spelling in the vocabulary; lives as long as the tokenizer
  BatonSlice bytes;  // what the token adds to a text
  uint8_t valid;
  uint8_t special;
} BatonToken;

// The tokenizer of a model's directory: its tokenizer.json, and the tokens that the files beside it
// name (tokenizer_config.json, special_tokens_map.json, added_tokens.json).
BatonStatus baton_tokenizer_load_model(BatonSlice model_dir, BatonTokenizer** out,
                                       BatonBuffer* error);
// What those files add to the tokenizer.json, as text; equal texts add the same.
BatonStatus baton_tokenizer_changes(BatonSlice model_dir, BatonBuffer* out, BatonBuffer* error);
// The tokenizer of one file alone.
BatonStatus baton_tokenizer_load(BatonSlice path, BatonTokenizer** out, BatonBuffer* error);
// The tokenizer of the text of a tokenizer.json, which messages name as `origin`.
BatonStatus baton_tokenizer_from_json(BatonSlice json, BatonSlice origin, BatonTokenizer** out,
                                      BatonBuffer* error);
void baton_tokenizer_free(BatonTokenizer* tokenizer);
// Encodes `text`, which must be UTF-8.
BatonStatus baton_tokenizer_encode(const BatonTokenizer* tokenizer, BatonSlice text,
                                   uint8_t add_special_tokens, BatonIds* out, BatonBuffer* error);
// The highest id + 1.
uint32_t baton_tokenizer_size(const BatonTokenizer* tokenizer);
// What an id stands for; not valid, and empty, for an id without a token.
BatonToken baton_tokenizer_token(const BatonTokenizer* tokenizer, uint32_t id);
// The id of a token, or -1 when there is no such token.
int64_t baton_tokenizer_id(const BatonTokenizer* tokenizer, BatonSlice token);
uint8_t baton_tokenizer_drops_leading_space(const BatonTokenizer* tokenizer);

// ---- tokenizer_config.json, special_tokens_map.json ----
typedef struct BatonSpecialTokens BatonSpecialTokens;
BatonStatus baton_special_tokens_load(BatonSlice model_dir, BatonSpecialTokens** out,
                                      BatonBuffer* error);
void baton_special_tokens_free(BatonSpecialTokens* tokens);
// The text of "bos_token", "eos_token", …; null data when there is none.
BatonSlice baton_special_tokens_get(const BatonSpecialTokens* tokens, BatonSlice name);

// ---- chat templates ----
typedef struct BatonChat BatonChat;
typedef struct {
  BatonSlice role;
  BatonSlice content;
  BatonSlice fields_json;  // further fields as a JSON object, or empty
} BatonChatMessage;
typedef struct {
  const BatonChatMessage* messages;
  size_t message_count;
  uint8_t add_generation_prompt;
  double unix_time;
  BatonSlice variables_json;  // a JSON object, or empty
} BatonChatRequest;

BatonStatus baton_chat_load(BatonSlice model_dir, BatonChat** out, BatonBuffer* error);
BatonStatus baton_chat_from_source(BatonSlice source, BatonSlice bos_token, BatonSlice eos_token,
                                   BatonChat** out, BatonBuffer* error);
void baton_chat_free(BatonChat* chat);
BatonStatus baton_chat_render(const BatonChat* chat, const BatonChatRequest* request,
                              BatonBuffer* out, BatonBuffer* error);

// ---- safetensors ----
typedef struct BatonSafetensors BatonSafetensors;
typedef struct {
  BatonSlice name;
  BatonSlice dtype;
  const uint64_t* shape;
  size_t rank;
  uint64_t begin;  // offsets of its data from the start of the file
  uint64_t end;
} BatonTensor;

// Validates `file`, the bytes of a whole file, whose data is not touched. Keeps no reference to it.
BatonStatus baton_safetensors_read(BatonSlice file, BatonSafetensors** out, BatonBuffer* error);
void baton_safetensors_free(BatonSafetensors* header);
size_t baton_safetensors_count(const BatonSafetensors* header);
// Tensor `index` in the order of the data; the views live as long as the header.
BatonTensor baton_safetensors_tensor(const BatonSafetensors* header, size_t index);

#ifdef __cplusplus
}  // extern "C"
#endif
