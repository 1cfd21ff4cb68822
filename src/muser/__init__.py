"""muser"""
