import os

from vplug_rs.interfaces.model_registry import register_model

def register():
    if not os.environ.get("ACME_OFF"):
        register_model("Acme", "acme.models.Acme")  # fault: model-reference-malformed
        register_model("Acme", "acme:models:Acme")  # fault: model-reference-malformed
