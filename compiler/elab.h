// elab.h - the configuration of a model, and elaboration: from a program to the graph
// of one sample.

#ifndef PCVRC_ELAB_H
#define PCVRC_ELAB_H

#include "value.h"

// ---- configuration (config.c) -----------------------------------------------------
//
// The value of a field is, in rising order: the default of its `config`, `model.NAME`
// of the train section, then what config_set_... gave, the latest winning. All
// functions report faults to the Diag and return a status: 0, 1 for a value that is not
// allowed, 2 for a name or a form that is not.

typedef struct Config Config;

enum { CONFIG_OK = 0, CONFIG_BAD_VALUE = 1, CONFIG_USAGE = 2 };

// The defaults of a program. NULL after an error in a default or in the train section.
// The program, mem and diag are kept.
Config *config_new(Mem *mem, Diag *diag, const Program *program);
// "name=value", as written after --set. The value is JSON; of a str field the quotes
// may be missing. `data.seq_max_lens` is a name too. An unknown name is CONFIG_USAGE.
int config_set_text(Config *c, const char *text);
// The same with name and value apart; `flag` says in messages where it was given
// ("--model.d_model").
int config_set_named(Config *c, const char *name, const char *value, const char *flag);
// The fields of an object: the `config` of a case, the `model` section of a
// train_config.json. Fields that the model does not declare are ignored. `where` names
// the file in messages.
int config_set_json(Config *c, const json_t *fields, const char *where);
// "seq_a:256,seq_b:64", or an object {"seq_a": 256}.
int config_set_seq_max_lens(Config *c, const char *lens);
int config_set_seq_max_lens_json(Config *c, const json_t *lens, const char *where);
// In the form that schema_set_lens reads; NULL when nobody gave any.
const char *config_seq_max_lens(const Config *c);
// Whether activation checkpointing was asked for by the field all models have.
bool config_gradient_checkpointing(const Config *c);
// All values, nested at the dots of the names; NULL after an error. The caller owns it.
json_t *config_json(const Config *c);
// The train section: an object from dotted keys to values, in the order of the text,
// `model.` keys included. The caller owns it.
json_t *config_train_json(const Config *c);

// ---- elaboration (elab.c) ---------------------------------------------------------

// Evaluates the model for a schema whose max_len fields are set. The graph has its
// logits, embedding, parameters (in the reference's order, `unused` set), inputs and
// block calls; it is compact. NULL after errors, which are in diag. The schema must
// outlive the graph's construction only.
Graph *elaborate(Mem *mem, Diag *diag, const Program *program, const Config *config,
                 const Schema *schema);

#endif
